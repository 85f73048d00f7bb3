import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(48)
device = torch.device("cuda")


class Deep(nn.Module):
    def __init__(self, depth=4, dim=16, use_checkpoint=True):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.Tanh())
            for _ in range(depth)
        )
        self.head = nn.Linear(dim, 1)
        self.use_checkpoint = use_checkpoint

    def forward(self, x):
        for layer in self.layers:
            if self.use_checkpoint and self.training:
                x = x + checkpoint(layer, x, use_reentrant=False)
            else:
                x = x + layer(x)
        return self.head(x)


x = torch.randn(96, 16)
y = x[:, :4].abs().sum(1, keepdim=True) / 2
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
model = Deep().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

for epoch in range(3):
    model.train()
    total = 0.0
    for xb, yb in loader:
        loss = nn.functional.mse_loss(model(xb.to(device)), yb.to(device))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.4f}")
