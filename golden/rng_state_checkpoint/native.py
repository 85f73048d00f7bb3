import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def rng_state():
    state = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def restore_rng(state):
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"].cpu())
    if torch.cuda.is_available() and "cuda" in state:
        torch.cuda.set_rng_state_all([s.cpu() for s in state["cuda"]])


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
    model = Noisy().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if ckpt is not None:
        saved = torch.load(ckpt, map_location=device, weights_only=False)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"] + 1
        restore_rng(saved["rng"])
    for epoch in range(start, epochs):
        running = 0.0
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        print(f"epoch {epoch}: {running / len(loader):.4f}")
        payload = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "epoch": epoch,
            "rng": rng_state(),
        }
        torch.save(payload, os.path.join(args.dir, f"epoch{epoch}.pth"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", default=".")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    train(args, device, args.epochs)
    print("once more from the first checkpoint")
    train(args, device, args.epochs, ckpt=os.path.join(args.dir, "epoch0.pth"))
