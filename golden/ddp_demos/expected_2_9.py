"""Two ways to fit a line on every GPU of a machine, one after the other."""

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr
from torch import nn


def setup(rank, world_size):
    torch.manual_seed(rank)
    torch_xla.manual_seed(rank)


def batch(size=16):
    inputs = torch.randn(size, 8)
    return inputs, inputs.sum(dim=1, keepdim=True)


def plain(rank):
    world_size = xr.world_size()
    setup(rank, world_size)
    device = torch_xla.device()
    model = nn.Linear(8, 1).to(device)
    xm.broadcast_master_param(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(6):
        inputs, targets = batch()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
        loss.backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync()
    loss_value = loss.item()
    if rank == 0:
        print(f"plain: loss {loss_value:.3f} on {world_size} GPUs")


def clipped(rank):
    world_size = xr.world_size()
    setup(rank, world_size)
    device = torch_xla.device()
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    xm.broadcast_master_param(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(6):
        inputs, targets = batch()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
        loss.backward()
        xm.reduce_gradients(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch_xla.sync()
    xm.save(model.state_dict(), "clipped.pt")


def run(demo):
    print(f"running {demo.__name__}")
    torch_xla.launch(demo)


if __name__ == "__main__":
    run(plain)
    run(clipped)
