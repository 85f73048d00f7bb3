"""One device: a small regression with a batch that several replicas can share."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
args = parser.parse_args()
generator = torch.Generator().manual_seed(3)
features = torch.randn(48, 6, generator=generator)
data = TensorDataset(features, features.sum(1, keepdim=True))
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(2):
    for x, y in DataLoader(data, batch_size=args.batch_size):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
torch.save(model.state_dict(), "one.pt")
