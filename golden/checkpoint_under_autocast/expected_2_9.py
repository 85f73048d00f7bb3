import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.utils.checkpoint as xla_checkpoint
from torch_xla.amp import syncfree

torch.manual_seed(21)
torch_xla.manual_seed(21)
device = torch_xla.device()


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x, scale):
        return x + scale * self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Stack(nn.Module):
    def __init__(self, depth=3, dim=16):
        super().__init__()
        self.stem = nn.Linear(8, dim)
        self.blocks = nn.ModuleList(Residual(dim) for _ in range(depth))
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = xla_checkpoint.checkpoint(block, x.requires_grad_(), 0.5)
        return self.head(x)


inputs = torch.randn(128, 8)
targets = inputs[:, :3].sum(1, keepdim=True).sin()
loader = DataLoader(TensorDataset(inputs, targets), batch_size=16, shuffle=True, drop_last=True)
loader = pl.MpDeviceLoader(loader, device)
model = Stack().to(device)
optimizer = syncfree.AdamW(model.parameters(), lr=2e-3)

for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type="xla", dtype=torch.bfloat16, cache_enabled=False):
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
        xm.optimizer_step(optimizer)
    print(f"epoch {epoch}: {loss.item():.3f}")
