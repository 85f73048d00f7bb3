# python -m torch.distributed.launch --nproc_per_node=N native.py
import argparse

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.runtime as xr
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS = 2
USAGE = """
  --local_rank comes from the launcher,
     never from you
"""

parser = argparse.ArgumentParser(epilog=USAGE)


class Gated(nn.Module):
    """A layer and its gate.

    Both see the input.
    """

    def __init__(self, width=12):
        super().__init__()
        self.value = nn.Linear(6, width)
        self.gate = nn.Linear(6, width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.value(x)) * torch.sigmoid(self.gate(x)))


def run_epoch(epoch):
    global best
    sampler.set_epoch(epoch)
    total = 0.0
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        xm.optimizer_step(optimizer)
        total += loss.detach()
    total = float(total)
    best = min(best, total / len(loader))


def _mp_fn(index):
    global args, best, loader, loss_fn, model, optimizer, sampler
    parser.add_argument("--local_rank", type=int, default=xr.local_ordinal())
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()

    # one GPU for each process
    torch.manual_seed(21)
    xm.set_rng_state(21)
    best = float("inf")

    # data
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(2))
    y = (x[:, :3].sum(1, keepdim=True) * x[:, 3:4]).tanh()
    dataset = TensorDataset(x, y)
    sampler = DistributedSampler(
        dataset, num_replicas=xr.world_size(), rank=xr.global_ordinal()
    )
    device = xm.xla_device()
    loader = DataLoader(
        dataset, batch_size=args.batch_size, sampler=sampler, drop_last=True
    )
    loader = pl.MpDeviceLoader(loader, device)

    # model
    model = Gated().to(device)
    xm.broadcast_master_param(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    loss_fn = nn.MSELoss().to(device)

    for epoch in range(EPOCHS):
        run_epoch(epoch)
        if xr.global_ordinal() == 0:
            print("""epoch %d
best %.5f""" % (epoch, best))

    xm.save(model.state_dict(), "gated.pt")


if __name__ == "__main__":
    xmp.spawn(_mp_fn)
