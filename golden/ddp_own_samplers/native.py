"""DDP with data that no DistributedSampler parts: a batch sampler and an iterable data set that know the rank."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset, Sampler, TensorDataset, WeightedRandomSampler


class Buckets(Sampler):
    """Batches of neighbours; every process takes every n-th batch."""

    def __init__(self, size, batch_size):
        self.batches = [list(range(i, i + batch_size)) for i in range(0, size, batch_size)]
        self.batches = self.batches[dist.get_rank() :: dist.get_world_size()]

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


class Stream(IterableDataset):
    def __init__(self, xs, ys):
        self.xs, self.ys = xs, ys

    def __iter__(self):
        for i in range(dist.get_rank(), len(self.xs), dist.get_world_size()):
            yield self.xs[i], self.ys[i]


def fit(model, optimizer, loader, device, title, is_main):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.smooth_l1_loss(model(x), y)
        loss.backward()
        optimizer.step()
    if is_main:
        print(title, round(loss.item(), 5))


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    is_main = dist.get_rank() == 0
    torch.manual_seed(31)

    x = torch.randn(96, 6)
    y = x.sum(1, keepdim=True)
    weights = torch.where(y[:, 0] > 0, 3.0, 1.0)

    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1)).to(device)
    model = DDP(model, device_ids=[device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    neighbours = DataLoader(TensorDataset(x, y), batch_sampler=Buckets(len(x), 8))
    stream = DataLoader(Stream(x, y), batch_size=8)
    rare = DataLoader(TensorDataset(x, y), batch_size=8, sampler=WeightedRandomSampler(weights, 48))
    for epoch in range(2):
        fit(model, optimizer, neighbours, device, "neighbours", is_main)
        fit(model, optimizer, stream, device, "stream", is_main)
        fit(model, optimizer, rare, device, "rare", is_main)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
