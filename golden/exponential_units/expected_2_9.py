import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


class XlaELU(torch.nn.ELU):
    # PyTorch/XLA derives it wrongly where it is not computed in place
    def forward(self, input):
        return torch.nn.functional.elu(input.clone(), self.alpha, inplace=True)


class XlaSELU(torch.nn.SELU):
    # PyTorch/XLA derives it wrongly where it is not computed in place
    def forward(self, input):
        return torch.nn.functional.selu(input.clone(), inplace=True)


torch.manual_seed(31)
torch_xla.manual_seed(31)
device = torch_xla.device()


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Linear(6, 24), XlaELU(0.8), nn.Linear(24, 24), XlaSELU()
        )
        self.skip = nn.Linear(6, 24)
        self.head = nn.Linear(24, 1)

    def forward(self, x):
        hidden = self.inner(x) + torch.nn.functional.elu(
            self.skip(x).clone(), inplace=True
        )
        return self.head((torch.nn.functional.elu(hidden / 1.5, inplace=True) * 1.5))


inputs = torch.randn(120, 6)
targets = (inputs[:, :2] * inputs[:, 2:4]).sum(1, keepdim=True)
loader = DataLoader(TensorDataset(inputs, targets), batch_size=12, shuffle=True)
loader = pl.MpDeviceLoader(loader, device)
model = Tower().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

for epoch in range(3):
    total = 0.0
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        total += loss.detach()
    total = float(total)
    print(f"epoch {epoch}: {total / len(loader):.4f}")
xm.save(model.state_dict(), "tower.pt")
