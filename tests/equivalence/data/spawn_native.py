"""The classifier of ``ddp_native`` for ``torch.multiprocessing.spawn``, with synchronised norms."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from ddp_native import Net, data
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main(rank, world):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("nccl", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm2d(1), Net()).to(rank)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = DDP(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    sampler = DistributedSampler(data(), num_replicas=world, rank=rank, shuffle=False)
    for x, y in DataLoader(data(), batch_size=4, sampler=sampler):
        x, y = x.to(rank, non_blocking=True), y.to(rank, non_blocking=True)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    mean = model.module[0].running_mean.clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    assert torch.allclose(mean, model.module[0].running_mean)
    assert model.device_ids is None
    dist.barrier(device_ids=[rank])
    dist.destroy_process_group()


if __name__ == "__main__":
    world_size = torch.cuda.device_count()
    mp.spawn(main, args=(world_size,), nprocs=world_size, join=True)
    print("done")
