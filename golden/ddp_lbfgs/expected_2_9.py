"""Fit of decay curves with LBFGS, the curves parted over the GPUs; torchrun --nproc_per_node=N native.py"""

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr
from torch import nn


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
    device = torch_xla.device()
    rank, world_size = xr.global_ordinal(), xr.world_size()

    t, y = curve(64)
    t, y = t[rank::world_size].to(device), y[rank::world_size].to(device)
    model = Decay().to(device)
    xm.broadcast_master_param(model)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=3, history_size=6)

    for step in range(3):

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(t), y)
            loss.backward()
            xm.reduce_gradients(optimizer)
            return loss

        loss = optimizer.step(closure)
        torch_xla.sync()
        loss_value = loss.item()
        if rank == 0:
            print(f"step {step}: {loss_value:.6f}")

    xm.save(model.state_dict(), "decay.pt")


def _mp_fn(index):
    main()


if __name__ == "__main__":
    torch_xla.launch(_mp_fn)
