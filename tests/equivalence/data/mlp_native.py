"""The smallest program with everything: a loader that shuffles, dropout, Adam, two epochs on a CUDA
device."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    labels = torch.arange(32) % 4
    features = torch.randn(32, 8) + labels.view(-1, 1)
    loader = DataLoader(TensorDataset(features, labels), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 4))
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(2):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    print("trained")


if __name__ == "__main__":
    main()
