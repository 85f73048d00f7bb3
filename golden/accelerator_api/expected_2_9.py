import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

# newer spelling, any accelerator will do
device = torch_xla.device()
print("accelerator in use:", device.type != "cpu")


class Interpolator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 24), nn.Mish(), nn.Linear(24, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    xm.optimizer_step(optimizer)
    return loss


torch.manual_seed(28)
torch_xla.manual_seed(28)
grid = torch.rand(100, 3)
value = grid.prod(1) * 8
loader = DataLoader(TensorDataset(grid, value), batch_size=10, shuffle=True)
loader = pl.MpDeviceLoader(loader, device)
model = Interpolator().to(device)
optimizer = torch.optim.Adamax(model.parameters(), lr=0.02)

history = []
for epoch in range(3):
    for x, y in loader:
        loss = step(model, optimizer, x, y)
        history.append(loss.detach())
    torch_xla.sync(wait=True)
    print(epoch, f"{torch.stack(history[-len(loader):]).mean().item():.4f}")
xm.save({"model": model.state_dict()}, "interp.pt")
