"""Ranks that the script starts itself, one process after another."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
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
    dataset = points(96)
    sampler = DistributedSampler(dataset, num_replicas=size, rank=rank)
    loader = DataLoader(dataset, batch_size=32 // size, sampler=sampler)
    model = DDP(Net().to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.5)

    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for data, target in loader:
            data, target = data.to(rank), target.to(rank)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data), target)
            loss.backward()
            optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        if rank == 0:
            print("epoch", epoch, "last loss", round(total.item() / size, 4))
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "net.pt")


def init_process(rank, size, fn, lr, backend="nccl"):
    """Initialize the distributed environment."""
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29501"
    dist.init_process_group(backend, rank=rank, world_size=size)
    fn(rank, size, lr)
    dist.destroy_process_group()


if __name__ == "__main__":
    size = 2
    processes = []
    for rank in range(size):
        p = mp.Process(target=init_process, args=(rank, size, run, 0.1))
        p.start()
        processes.append(p)

    for p in processes:
        p.join()
