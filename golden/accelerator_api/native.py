import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

# newer spelling, any accelerator will do
if torch.accelerator.is_available():
    device = torch.accelerator.current_accelerator()
else:
    device = torch.device("cpu")
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
    optimizer.step()
    return loss


torch.manual_seed(28)
grid = torch.rand(100, 3)
value = grid.prod(1) * 8
loader = DataLoader(TensorDataset(grid, value), batch_size=10, shuffle=True)
model = Interpolator().to(device)
optimizer = torch.optim.Adamax(model.parameters(), lr=0.02)

history = []
for epoch in range(3):
    for x, y in loader:
        loss = step(model, optimizer, x.to(device), y.to(device))
        history.append(loss.detach())
    torch.accelerator.synchronize()
    print(epoch, f"{torch.stack(history[-len(loader):]).mean().item():.4f}")
torch.save({"model": model.state_dict()}, "interp.pt")
