import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--resume", type=str, default=None)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(9, 27)
        self.head = nn.Linear(27, 4)

    def forward(self, x):
        return self.head(torch.tanh(self.stem(x)))


torch.manual_seed(31)
torch_xla.manual_seed(31)
points = torch.randn(80, 9)
groups = points[:, :4].argmax(dim=1)
device = torch_xla.device()
loader = DataLoader(TensorDataset(points, groups), batch_size=10, shuffle=True)
loader = pl.MpDeviceLoader(loader, device)

net = Net()
net.to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=1, gamma=0.5)
if args.resume:
    opt.load_state_dict(torch.load(args.resume, map_location="cpu")["opt"])

for epoch in range(args.epochs):
    for step, (xs, ys) in enumerate(loader):
        opt.zero_grad()
        loss = F.cross_entropy(net(xs), ys)
        loss.backward()
        xm.optimizer_step(opt)
        if step % 4 == 3:

            def log_step(epoch, step, loss):
                print(f"{epoch}:{step} loss={loss:.4f} lr={sched.get_last_lr()[0]}")

            xm.add_step_closure(log_step, args=(epoch, step, loss))
    sched.step()
xm.save({"net": net.state_dict(), "opt": opt.state_dict()}, "last.pt")
