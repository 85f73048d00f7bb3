"""A small CNN with dropout and augmentation, trained for two epochs on an XLA device: what the
native script is to become."""

import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    def __init__(self, count):
        self.labels = torch.arange(count) % 4
        self.images = torch.randn(count, 1, 8, 8) * 0.3
        self.images += self.labels.view(-1, 1, 1, 1) * 0.4

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        if random.random() < 0.5:
            image = image.flip(-1)
        image = image + 0.05 * torch.randn_like(image) + 0.01 * float(np.random.rand())
        return image, self.labels[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout2d(0.2)
        self.fc1 = nn.Linear(8 * 4 * 4, 32)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        x = self.drop(x).flatten(1)
        x = F.dropout(F.relu(self.fc1(x)), 0.5, self.training)
        return self.fc2(x)


def main():
    torch.manual_seed(0)
    torch_xla.manual_seed(0)
    device = torch_xla.device()
    loader = DataLoader(Patches(64), batch_size=8, shuffle=True, pin_memory=True)
    device_loader = pl.MpDeviceLoader(loader, device)
    model = Net().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(2):
        model.train()
        total = torch.zeros((), device=device)
        for x, y in device_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            xm.optimizer_step(optimizer)
            total += loss.detach()
        print(f"epoch {epoch} loss {total.item() / len(loader):.4f}")
    xm.save(model.state_dict(), "cnn.pt")


if __name__ == "__main__":
    main()
