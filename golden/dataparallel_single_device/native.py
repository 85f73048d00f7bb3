import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--parallel", action="store_true", default=False)
parser.add_argument("--out", default="m.pt")


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.width = width
        self.layers = nn.Sequential(nn.Linear(8, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, x):
        return self.layers(x)

    def describe(self):
        return f"Net of width {self.width}"


def main(args):
    torch.manual_seed(0)
    ds = TensorDataset(torch.randn(96, 8), torch.zeros(96, 2))
    ds.tensors[1].copy_(ds.tensors[0][:, :2].roll(1, dims=1) * 2)

    net = Net()
    if torch.cuda.device_count() > 1:
        print("Let's use", torch.cuda.device_count(), "GPUs!")
        net = nn.DataParallel(net)
    elif args.parallel:
        net = torch.nn.DataParallel(net, device_ids=[0])
    net = net.cuda()
    core = net.module if hasattr(net, "module") else net
    print(core.describe())

    feed = DataLoader(ds, batch_size=args.batch_size, shuffle=True, num_workers=0)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(args.epochs):
        for xs, ys in feed:
            loss = nn.functional.mse_loss(net(xs.cuda()), ys.cuda())
            loss.backward()
            opt.step()
            opt.zero_grad()
        print("epoch", epoch, "loss", "%.4f" % loss.item())
    torch.save(core.state_dict(), args.out)


if __name__ == "__main__":
    main(parser.parse_args())
