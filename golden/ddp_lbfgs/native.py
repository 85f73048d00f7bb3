"""Fit of decay curves with LBFGS, the curves parted over the GPUs; torchrun --nproc_per_node=N native.py"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Decay(nn.Module):
    def __init__(self, terms=3):
        super().__init__()
        self.rate = nn.Parameter(torch.linspace(-1.0, 1.0, terms))
        self.height = nn.Parameter(torch.ones(terms))

    def forward(self, t):
        return (self.height * torch.exp(-t[:, None] * self.rate.exp())).sum(1)


def curve(points):
    t = torch.linspace(0, 4, points)
    return t, 2.0 * torch.exp(-0.5 * t) + 0.7 * torch.exp(-2.5 * t)


def main():
    dist.init_process_group(backend="nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    rank, world_size = dist.get_rank(), dist.get_world_size()

    t, y = curve(64)
    t, y = t[rank::world_size].to(device), y[rank::world_size].to(device)
    model = DDP(Decay().to(device), device_ids=[local_rank])
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=3, history_size=6)

    for step in range(3):

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(t), y)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        if rank == 0:
            print(f"step {step}: {loss.item():.6f}")

    if rank == 0:
        torch.save(model.module.state_dict(), "decay.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
