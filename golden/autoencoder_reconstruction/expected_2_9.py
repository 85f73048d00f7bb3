"""Variational autoencoder on synthetic blobs."""

import argparse
import os

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description="VAE")
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--no-cuda", action="store_true", help="disables CUDA training")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--log-interval", type=int, default=3)
parser.add_argument("--results", default="results")
args = parser.parse_args()
args.cuda = not args.no_cuda

torch.manual_seed(args.seed)
torch_xla.manual_seed(args.seed)
device = torch_xla.device() if args.cuda else torch.device("cpu")
os.makedirs(args.results, exist_ok=True)

kwargs = {"num_workers": 0, "pin_memory": True} if args.cuda else {}


def blobs(n):
    grid = torch.arange(8).float()
    cx, cy = torch.rand(n, 1, 1) * 7, torch.rand(n, 1, 1) * 7
    dist = (grid.view(1, 1, 8) - cx) ** 2 + (grid.view(1, 8, 1) - cy) ** 2
    return TensorDataset(0.05 + 0.9 * torch.exp(-dist / 4))


train_loader = DataLoader(
    blobs(128), batch_size=args.batch_size, shuffle=True, **kwargs
)
test_loader = DataLoader(blobs(40), batch_size=args.batch_size, **kwargs)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc21 = nn.Linear(32, 4)
        self.fc22 = nn.Linear(32, 4)
        self.fc3 = nn.Linear(4, 32)
        self.fc4 = nn.Linear(32, 64)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def forward(self, x):
        h1 = F.relu(self.fc1(x.view(-1, 64)))
        mu, logvar = self.fc21(h1), self.fc22(h1)
        z = self.reparameterize(mu, logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


model = VAE().to(device)
optimizer = optim.Adam(model.parameters(), lr=2e-3)

for epoch in range(1, args.epochs + 1):
    model.train()
    train_loss = 0
    train_device_loader = train_loader
    if device.type == "xla":
        train_device_loader = pl.MpDeviceLoader(train_loader, device)
    for batch_idx, (data,) in enumerate(train_device_loader):
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.detach()
        xm.optimizer_step(optimizer)
        if batch_idx % args.log_interval == 0:
            torch_xla.sync()
            print(f"Epoch {epoch} [{batch_idx}] Loss: {loss.item() / len(data):.4f}")
    train_loss = float(train_loss)
    print(f"====> Average loss: {train_loss / len(train_loader.dataset):.4f}")

    model.eval()
    test_loss = 0
    with torch.no_grad():
        test_device_loader = test_loader
        if device.type == "xla":
            test_device_loader = pl.MpDeviceLoader(test_loader, device)
        for i, (data,) in enumerate(test_device_loader):
            recon_batch, mu, logvar = model(data)
            test_loss += loss_function(recon_batch, data, mu, logvar)
            if i == 0:
                n = min(data.size(0), 4)
                comparison = torch.cat([data[:n].view(n, 64), recon_batch[:n]])
                torch_xla.sync()
                torch.save(comparison.cpu(), f"{args.results}/recon_{epoch}.pt")
        test_loss = float(test_loss)
    print(f"====> Test set loss: {test_loss / len(test_loader.dataset):.4f}")
