"""Trains on the CPU on purpose. There is no .cuda() call in this file.

Benchmarks with device="cuda" are kept in another script.
"""

import argparse

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset

# torch.cuda.is_available() is not asked: small models are faster here
HELP = "use train_gpu.py for cuda, e.g. python train_gpu.py --device cuda:0"
NOTES = {"cuda": "see train_gpu.py", "cpu": "this script"}


class Clock:
    def step(self):
        return 1


def main():
    parser = argparse.ArgumentParser(epilog=HELP)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(3)
    torch_xla.manual_seed(3)
    x = torch.randn(80, 5)
    y = x @ torch.randn(5, 1)
    loader = DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True)
    model = nn.Linear(5, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    clock, ticks = Clock(), 0
    for epoch in range(args.epochs):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
            torch_xla.sync()
            ticks += clock.step()
        print(f"epoch {epoch} ({ticks} ticks): {loss.item():.5f}")
    print("cuda:", NOTES["cuda"])


if __name__ == "__main__":
    main()
