import os

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

use_gpu = True


class Shelf(Dataset):
    """Each item: picture, numeric attributes, price, path of the file."""

    def __init__(self, split, n):
        self.split = split
        self.pictures = torch.rand(n, 1, 6, 6)
        self.attrs = torch.rand(n, 3)
        self.price = self.pictures.mean((1, 2, 3)) * 4 + self.attrs.sum(1)

    def __len__(self):
        return len(self.price)

    def __getitem__(self, i):
        path = os.path.join(self.split, f"item_{i:04d}.png")
        return self.pictures[i], self.attrs[i], self.price[i], path


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.picture = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU())
        self.attrs = nn.Sequential(nn.Linear(3, 16), nn.ReLU())
        self.join = nn.Linear(32, 1)

    def forward(self, picture, attrs):
        both = torch.cat([self.picture(picture), self.attrs(attrs)], dim=1)
        return self.join(both).squeeze(1)


torch.manual_seed(55)
torch_xla.manual_seed(55)
device = torch_xla.device()
train_loader = DataLoader(Shelf("train", 80), batch_size=10, shuffle=True)
train_loader = pl.MpDeviceLoader(train_loader, device)
test_loader = DataLoader(Shelf("test", 25), batch_size=10)
model = TwoTower()
if use_gpu:
    model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
mse = nn.MSELoss()

for epoch in range(3):
    model.train()
    for i, (pictures, attrs, price, paths) in enumerate(train_loader):
        loss = mse(model(pictures, attrs), price)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
    print("epoch %d, last batch loss %.5f" % (epoch, loss.item()))

worst = []
model.eval()
with torch.no_grad():
    for pictures, attrs, price, paths in test_loader:
        if use_gpu:
            pictures, attrs = pictures.to(device), attrs.to(device)
        error = (model(pictures, attrs).cpu() - price).abs()
        torch_xla.sync()
        worst += list(zip(error.tolist(), paths))
worst.sort(reverse=True)
with open("worst.txt", "w") as fh:
    for error, path in worst[:5]:
        fh.write(f"{error:.4f} {path}\n")
print("largest error %.4f at %s" % worst[0])
