import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch_xla.amp import (
    autocast,
    custom_bwd as xla_custom_bwd,
    custom_fwd as xla_custom_fwd,
    syncfree,
)


class ScaledTanh(torch.autograd.Function):
    """tanh(a * x) with a hand-written derivative that runs in float32."""

    @staticmethod
    @xla_custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, x, a):
        y = torch.tanh(a * x)
        ctx.save_for_backward(x, a, y)
        return y

    @staticmethod
    @xla_custom_bwd
    def backward(ctx, grad):
        x, a, y = ctx.saved_tensors
        slope = grad * (1 - y * y)
        return slope * a, (slope * x).sum().view_as(a)


class Activation(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return ScaledTanh.apply(x, self.a)


def main():
    torch.manual_seed(61)
    xm.set_rng_state(61)
    device = xm.xla_device()
    x = torch.randn(96, 5)
    y = torch.sin(x).sum(1, keepdim=True)
    loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
    loader = pl.MpDeviceLoader(loader, device)
    model = nn.Sequential(
        nn.Linear(5, 24),
        Activation(),
        nn.Linear(24, 24),
        Activation(),
        nn.Linear(24, 1),
    )
    model = model.to(device=device, dtype=torch.float32)
    optimizer = syncfree.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(3):
        for x, y in loader:
            with autocast(dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
        slopes = [f"{m.a.item():.4f}" for m in model if isinstance(m, Activation)]
        print(f"epoch {epoch} loss {loss.item():.4f} slopes {slopes}")


if __name__ == "__main__":
    main()
