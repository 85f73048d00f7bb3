import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


def rng_state():
    state = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
    }
    state["cuda"] = [xm.get_rng_state()]
    return state


def restore_rng(state):
    random.setstate((state["python"][0], tuple(state["python"][1]), state["python"][2]))
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"].cpu())
    if "cuda" in state:
        for rng_state in state["cuda"]:
            xm.set_rng_state(rng_state)


class Noisy(nn.Module):
    def __init__(self, sigma=0.1):
        super().__init__()
        self.sigma = sigma
        self.net = nn.Sequential(
            nn.Linear(6, 20), nn.Tanh(), nn.Dropout(0.2), nn.Linear(20, 1)
        )

    def forward(self, x):
        if self.training:
            x = x + self.sigma * torch.randn_like(x)
        return self.net(x)


def train(args, device, epochs, start=0, ckpt=None):
    x = torch.linspace(-1, 1, 60).unsqueeze(1) * torch.arange(1, 7)
    y = torch.sin(x).mean(1, keepdim=True) * 2
    loader = DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True)
    loader = pl.MpDeviceLoader(loader, device)
    model = Noisy().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if ckpt is not None:
        saved = torch.load(ckpt, map_location="cpu", weights_only=False)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"] + 1
        restore_rng(saved["rng"])
    for epoch in range(start, epochs):
        running = 0.0
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
            running += loss.detach()
        running = float(running)
        print(f"epoch {epoch}: {running / len(loader):.4f}")
        payload = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "epoch": epoch,
            "rng": rng_state(),
        }
        xm.save(payload, os.path.join(args.dir, f"epoch{epoch}.pth"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", default=".")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    device = xm.xla_device()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    xm.set_rng_state(0)
    train(args, device, args.epochs)
    print("once more from the first checkpoint")
    train(args, device, args.epochs, ckpt=os.path.join(args.dir, "epoch0.pth"))
