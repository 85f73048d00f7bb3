import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.utils.checkpoint as xla_checkpoint

torch.manual_seed(48)
xm.set_rng_state(48)
device = xm.xla_device()


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
                x = x + xla_checkpoint.checkpoint(layer, x.requires_grad_())
            else:
                x = x + layer(x)
        return self.head(x)


x = torch.randn(96, 16)
y = x[:, :4].abs().sum(1, keepdim=True) / 2
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
loader = pl.MpDeviceLoader(loader, device)
model = Deep().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

for epoch in range(3):
    model.train()
    total = 0.0
    for xb, yb in loader:
        loss = nn.functional.mse_loss(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        xm.reduce_gradients(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        total += loss.detach()
    total = float(total)
    print(f"epoch {epoch}: {total / len(loader):.4f}")
