import argparse

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--micro-batch", type=int, default=8)
    p.add_argument("--accum-steps", type=int, default=3)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--device", default="cuda:0")
    return p.parse_args()


def make_dataset(n=88):
    x = torch.randn(n, 10)
    w = torch.randn(10, 1)
    y = torch.tanh(x @ w) + 0.05 * torch.randn(n, 1)
    return TensorDataset(x, y)


def main():
    args = parse_args()
    if args.device.startswith("cuda"):
        args.device = "xla"
    torch.manual_seed(0)
    xm.set_rng_state(0)
    device = torch.device(args.device)
    loader = DataLoader(make_dataset(), batch_size=args.micro_batch, shuffle=True)
    if device.type == "xla":
        loader = pl.MpDeviceLoader(loader, device)

    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.MSELoss()

    updates = 0
    for epoch in range(args.epochs):
        optimizer.zero_grad()
        running = 0.0
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y) / args.accum_steps
            loss.backward()
            running += loss.detach() * args.accum_steps
            # the last group of an epoch may be smaller than the others
            if (i + 1) % args.accum_steps == 0 or (i + 1) == len(loader):
                xm.optimizer_step(optimizer)
                optimizer.zero_grad()
                updates += 1
        running = float(running)
        print(f"epoch {epoch}: mse {running / len(loader):.5f} after {updates} updates")


if __name__ == "__main__":
    main()
