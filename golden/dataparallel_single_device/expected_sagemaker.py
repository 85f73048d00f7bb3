import argparse

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
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
    xm.set_rng_state(0)
    ds = TensorDataset(torch.randn(96, 8), torch.zeros(96, 2))
    ds.tensors[1].copy_(ds.tensors[0][:, :2].roll(1, dims=1) * 2)

    net = Net()
    device = xm.xla_device()
    net = net.to(device)
    core = net
    print(core.describe())

    feed = DataLoader(ds, batch_size=args.batch_size, shuffle=True, num_workers=0)
    feed = pl.MpDeviceLoader(feed, device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(args.epochs):
        for xs, ys in feed:
            loss = nn.functional.mse_loss(net(xs), ys)
            loss.backward()
            xm.optimizer_step(opt)
            opt.zero_grad()
        print("epoch", epoch, "loss", "%.4f" % loss.item())
    xm.save(core.state_dict(), args.out)


if __name__ == "__main__":
    main(parser.parse_args())
