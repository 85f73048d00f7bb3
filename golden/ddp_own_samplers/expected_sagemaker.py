"""DDP with data that no DistributedSampler parts: a batch sampler and an iterable data set that know the rank."""

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, Sampler, TensorDataset, WeightedRandomSampler


class Buckets(Sampler):
    """Batches of neighbours; every process takes every n-th batch."""

    def __init__(self, size, batch_size):
        self.batches = [list(range(i, i + batch_size)) for i in range(0, size, batch_size)]
        self.batches = self.batches[xm.get_ordinal() :: xm.xrt_world_size()]

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


class Stream(IterableDataset):
    def __init__(self, xs, ys):
        self.xs, self.ys = xs, ys

    def __iter__(self):
        for i in range(xm.get_ordinal(), len(self.xs), xm.xrt_world_size()):
            yield self.xs[i], self.ys[i]


def fit(model, optimizer, loader, device, title, is_main):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.smooth_l1_loss(model(x), y)
        loss.backward()
        xm.optimizer_step(optimizer)
    loss_value = loss.item()
    if is_main:
        print(title, round(loss_value, 5))


def main():
    device = xm.xla_device()
    is_main = xm.get_ordinal() == 0
    torch.manual_seed(31)
    xm.set_rng_state(31)

    x = torch.randn(96, 6)
    y = x.sum(1, keepdim=True)
    weights = torch.where(y[:, 0] > 0, 3.0, 1.0)

    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1)).to(device)
    xm.collective_broadcast([*model.parameters(), *model.buffers()])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    neighbours = DataLoader(TensorDataset(x, y), batch_sampler=Buckets(len(x), 8))
    neighbours = pl.MpDeviceLoader(neighbours, device)
    stream = DataLoader(Stream(x, y), batch_size=8)
    stream = pl.MpDeviceLoader(stream, device)
    rare = DataLoader(TensorDataset(x, y), batch_size=8, sampler=WeightedRandomSampler(weights, 48))
    rare = pl.MpDeviceLoader(rare, device)
    for epoch in range(2):
        fit(model, optimizer, neighbours, device, "neighbours", is_main)
        fit(model, optimizer, stream, device, "stream", is_main)
        fit(model, optimizer, rare, device, "rare", is_main)


def _mp_fn(index):
    main()


if __name__ == "__main__":
    _mp_fn(0)
