"""Gradient accumulation in DDP: gradients travel with the last of four small batches only."""

import contextlib

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn
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
        boundary = (i + 1) % ACCUMULATE == 0
        loss = nn.functional.l1_loss(model(x), x.roll(1, dims=1))
        (loss / ACCUMULATE).backward()
        if boundary:
            xm.optimizer_step(optimizer)
            optimizer.zero_grad(set_to_none=True)
    return loss


def main():
    local_rank = xm.get_local_ordinal()
    torch.manual_seed(100 + xm.get_ordinal())
    xm.set_rng_state(torch.initial_seed())

    data = TensorDataset(torch.randn(128, 8, generator=torch.Generator().manual_seed(4)))
    sampler = DistributedSampler(data, num_replicas=xm.xrt_world_size(), rank=xm.get_ordinal(), shuffle=True, seed=3)
    device = xm.xla_device()
    loader = DataLoader(data, batch_size=4, sampler=sampler, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)
    model = Encoder().to(device)
    xm.collective_broadcast([*model.parameters(), *model.buffers()])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)

    for epoch in range(2):
        sampler.set_epoch(epoch)
        loss = train(model, loader, optimizer, local_rank)
        print(f"rank {xm.get_ordinal()} epoch {epoch} loss {loss.item():.5f}")

    xm.rendezvous("main")


def _mp_fn(index):
    main()


if __name__ == "__main__":
    _mp_fn(0)
