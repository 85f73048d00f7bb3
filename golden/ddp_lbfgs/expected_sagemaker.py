"""Fit of decay curves with LBFGS, the curves parted over the GPUs; torchrun --nproc_per_node=N native.py"""

import torch
import torch_xla.core.xla_model as xm
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
    device = xm.xla_device()
    rank, world_size = xm.get_ordinal(), xm.xrt_world_size()

    t, y = curve(64)
    t, y = t[rank::world_size].to(device), y[rank::world_size].to(device)
    model = Decay().to(device)
    xm.collective_broadcast([*model.parameters(), *model.buffers()])
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=3, history_size=6)

    for step in range(3):

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(t), y)
            loss.backward()
            xm.all_reduce("sum", xm._fetch_gradients(optimizer), scale=1.0 / xm.xrt_world_size())
            return loss

        loss = optimizer.step(closure)
        xm.mark_step()
        loss_value = loss.item()
        if rank == 0:
            print(f"step {step}: {loss_value:.6f}")

    xm.save(model.state_dict(), "decay.pt")


def _mp_fn(index):
    main()


if __name__ == "__main__":
    _mp_fn(0)
