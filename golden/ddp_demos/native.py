"""Two ways to fit a line on every GPU of a machine, one after the other."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12377"
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.manual_seed(rank)


def cleanup():
    dist.destroy_process_group()


def batch(size=16):
    inputs = torch.randn(size, 8)
    return inputs, inputs.sum(dim=1, keepdim=True)


def plain(rank, world_size):
    setup(rank, world_size)
    model = DDP(nn.Linear(8, 1).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(6):
        inputs, targets = batch()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets.to(rank))
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"plain: loss {loss.item():.3f} on {world_size} GPUs")
    cleanup()


def clipped(rank, world_size):
    setup(rank, world_size)
    model = DDP(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(rank), device_ids=[rank])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(6):
        inputs, targets = batch()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets.to(rank))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    if rank == 0:
        torch.save(model.module.state_dict(), "clipped.pt")
    cleanup()


def run(demo, world_size):
    print(f"running {demo.__name__}")
    mp.spawn(demo, args=(world_size,), nprocs=world_size, join=True)


if __name__ == "__main__":
    gpus = torch.cuda.device_count()
    assert gpus >= 1, f"a GPU is needed, this machine has {gpus}"
    run(plain, gpus)
    run(clipped, gpus)
