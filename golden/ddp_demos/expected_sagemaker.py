"""Two ways to fit a line on every GPU of a machine, one after the other."""

import torch
import torch_xla.core.xla_model as xm
from torch import nn


def setup(rank, world_size):
    torch.manual_seed(rank)
    xm.set_rng_state(rank)


def batch(size=16):
    inputs = torch.randn(size, 8)
    return inputs, inputs.sum(dim=1, keepdim=True)


def plain(rank, world_size):
    setup(rank, world_size)
    device = xm.xla_device()
    model = nn.Linear(8, 1).to(device)
    xm.collective_broadcast([*model.parameters(), *model.buffers()])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(6):
        inputs, targets = batch()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
        loss.backward()
        xm.optimizer_step(optimizer)
        xm.mark_step()
    loss_value = loss.item()
    if rank == 0:
        print(f"plain: loss {loss_value:.3f} on {world_size} GPUs")


def clipped(rank, world_size):
    setup(rank, world_size)
    device = xm.xla_device()
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    xm.collective_broadcast([*model.parameters(), *model.buffers()])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(6):
        inputs, targets = batch()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
        loss.backward()
        xm.all_reduce(
            "sum", xm._fetch_gradients(optimizer), scale=1.0 / xm.xrt_world_size()
        )
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        xm.mark_step()
    xm.save(model.state_dict(), "clipped.pt")


def run(demo, world_size):
    print(f"running {demo.__name__}")
    demo(xm.get_ordinal(), world_size)


def _mp_fn(index):
    gpus = xm.xrt_world_size()
    run(plain, gpus)
    run(clipped, gpus)


if __name__ == "__main__":
    _mp_fn(0)
