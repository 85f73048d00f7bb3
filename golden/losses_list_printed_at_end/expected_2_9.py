import random

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset


def seed_everything(seed=42):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch_xla.manual_seed(seed)


class Parabola(Dataset):
    def __init__(self, n):
        self.x = np.random.uniform(-2, 2, size=(n, 1)).astype("float32")
        self.y = (self.x**2 - 0.5 * self.x + 1).astype("float32")

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, idx):
        return torch.from_numpy(self.x[idx]), torch.from_numpy(self.y[idx])


class Poly(torch.nn.Module):
    def __init__(self, degree=3):
        super().__init__()
        self.coef = torch.nn.Parameter(torch.zeros(degree + 1))

    def forward(self, x):
        powers = torch.cat([x**i for i in range(self.coef.numel())], dim=1)
        return powers @ self.coef.unsqueeze(1)


seed_everything()
device = torch_xla.device()
loader = DataLoader(Parabola(64), batch_size=8, shuffle=True)
loader = pl.MpDeviceLoader(loader, device)
model = Poly().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.8)

losses = []
epoch_losses = []
for epoch in range(3):
    running = []
    for x, y in loader:
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)

        def log_step(loss):
            losses.append(loss.item())
            running.append(loss.detach().cpu().numpy())

        xm.add_step_closure(log_step, args=(loss,))
    epoch_losses.append(np.mean(running))

for i, value in enumerate(losses):
    print(f"step {i:3d}  loss {value:.5f}")
print("epochs:", [round(float(v), 5) for v in epoch_losses])
print("coefficients:", [round(c, 3) for c in model.coef.tolist()])
