"""Whole training step captured in a CUDA graph and replayed."""

import torch
import torch.nn as nn
import contextlib
import torch_xla
import torch_xla.core.xla_model as xm

N, D_IN, H, D_OUT = 64, 32, 64, 8
STEPS = 20

torch.manual_seed(0)
torch_xla.manual_seed(0)

device = torch_xla.device()
model = nn.Sequential(nn.Linear(D_IN, H), nn.Dropout(p=0.2), nn.Linear(H, D_OUT)).to(
    device
)
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

# the graph reads and writes these
static_input = torch.randn(N, D_IN, device=device)
static_target = torch.randn(N, D_OUT, device=device)

with contextlib.nullcontext():
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(static_input), static_target)
        loss.backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync()

g = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(g):
    static_pred = model(static_input)
    static_loss = loss_fn(static_pred, static_target)
    static_loss.backward()
    xm.optimizer_step(optimizer)

real_inputs = [torch.rand_like(static_input) for _ in range(STEPS)]
real_targets = [torch.rand_like(static_target) for _ in range(STEPS)]

for step, (data, target) in enumerate(zip(real_inputs, real_targets)):
    static_input.copy_(data)
    static_target.copy_(target)
    g.replay()
    if step % 5 == 0:
        print(f"step {step}: {static_loss.item():.4f}")
torch_xla.sync(wait=True)
