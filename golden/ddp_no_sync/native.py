"""Gradient accumulation in DDP: gradients travel with the last of four small batches only."""

import contextlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

ACCUMULATE = 4


class Encoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, width), nn.GELU(), nn.LayerNorm(width))
        self.outer = nn.Linear(width, 8)

    def forward(self, x):
        return self.outer(self.inner(x))


def train(model, loader, optimizer, local_rank):
    for i, (x,) in enumerate(loader):
        x = x.cuda(local_rank, non_blocking=True)
        boundary = (i + 1) % ACCUMULATE == 0
        with contextlib.nullcontext() if boundary else model.no_sync():
            loss = nn.functional.l1_loss(model(x), x.roll(1, dims=1))
            (loss / ACCUMULATE).backward()
        if boundary:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return loss


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    torch.manual_seed(100 + dist.get_rank())

    data = TensorDataset(torch.randn(128, 8, generator=torch.Generator().manual_seed(4)))
    sampler = DistributedSampler(data, shuffle=True, seed=3)
    loader = DataLoader(data, batch_size=4, sampler=sampler, drop_last=True)
    model = DDP(Encoder().cuda(local_rank), device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)

    for epoch in range(2):
        sampler.set_epoch(epoch)
        loss = train(model, loader, optimizer, local_rank)
        print(f"rank {dist.get_rank()} epoch {epoch} loss {loss.item():.5f}")

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
