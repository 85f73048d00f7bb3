import torch
import torch.nn as nn
import torch.utils.checkpoint as cp
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(21)
device = torch.device("cuda")


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
            x = cp.checkpoint(block, x, 0.5, use_reentrant=False)
        return self.head(x)


inputs = torch.randn(128, 8)
targets = inputs[:, :3].sum(1, keepdim=True).sin()
loader = DataLoader(TensorDataset(inputs, targets), batch_size=16, shuffle=True, drop_last=True)
model = Stack().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

for epoch in range(3):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
