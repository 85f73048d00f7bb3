"""Ranks that the script starts itself, one process after another."""

import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS = 3


def points(count):
    g = torch.Generator().manual_seed(3)
    x = torch.rand(count, 2, generator=g)
    return TensorDataset(x, (x[:, 0] > x[:, 1]).long())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 16)
        self.fc2 = nn.Linear(16, 2)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


def run(rank, size, lr):
    """What each rank does."""
    torch.manual_seed(1234)
    xm.set_rng_state(1234)
    dataset = points(96)
    sampler = DistributedSampler(dataset, num_replicas=size, rank=rank)
    device = xm.xla_device()
    loader = DataLoader(dataset, batch_size=32 // size, sampler=sampler)
    loader = pl.MpDeviceLoader(loader, device)
    model = Net().to(device)
    xm.collective_broadcast([*model.parameters(), *model.buffers()])
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.5)

    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for data, target in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data), target)
            loss.backward()
            xm.optimizer_step(optimizer)
        total = loss.detach().clone()
        xm.all_reduce("sum", [total])
        total_value = total.item()
        if rank == 0:
            print("epoch", epoch, "last loss", round(total_value / size, 4))
    xm.save(model.state_dict(), "net.pt")


def init_process(rank, fn, lr, backend="nccl"):
    """Initialize the distributed environment."""
    size = xm.xrt_world_size()
    fn(rank, size, lr)


def _mp_fn(index):
    init_process(xm.get_ordinal(), run, 0.1)


if __name__ == "__main__":
    _mp_fn(0)
