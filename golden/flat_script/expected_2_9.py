import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

torch.manual_seed(123)
torch_xla.manual_seed(123)

# data
X = torch.rand(120, 6)
Y = (X * torch.tensor([1.0, -2.0, 0.5, 3.0, -1.0, 0.0])).sum(1, keepdim=True) + 0.3
device = torch_xla.device()
train_dl = DataLoader(TensorDataset(X[:96], Y[:96]), batch_size=12, shuffle=True)
train_dl = pl.MpDeviceLoader(train_dl, device)
test_dl = DataLoader(TensorDataset(X[96:], Y[96:]), batch_size=12)
test_dl = pl.MpDeviceLoader(test_dl, device)

# model
model = nn.Sequential(nn.Linear(6, 20), nn.Softplus(), nn.Linear(20, 1))
model = model.to(device)
loss_fn = nn.SmoothL1Loss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3, alpha=0.9, eps=1e-4)

# train
for epoch in range(3):
    for xb, yb in train_dl:
        optimizer.zero_grad()
        pred = model(xb)
        loss = loss_fn(pred, yb)
        loss.backward()
        xm.optimizer_step(optimizer)
    print('epoch', epoch, 'last loss', round(loss.item(), 5))

# test
model.eval()
err = 0
with torch.no_grad():
    for xb, yb in test_dl:
        err += (model(xb) - yb).abs().sum()
print('mean abs error', round(err.item() / 24, 5))
