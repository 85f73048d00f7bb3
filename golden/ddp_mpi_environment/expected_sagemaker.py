"""Fits a curve; start it with  mpirun -np N python native.py  or torchrun: a helper reads what either launcher gives."""

import argparse
import os
import random
import sys

import numpy as np
import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn, optim
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset


def env_int(*names, default=0):
    for name in names:
        value = os.environ.get(name)
        if value is not None:
            return int(value)
    return default


def log(*words):
    if RANK != 0:
        return
    print(*words)
    sys.stdout.flush()


def seed_all(seed):
    random.seed(seed + RANK)
    np.random.seed(seed + RANK)
    torch.manual_seed(seed + RANK)
    xm.set_rng_state(seed + RANK)


def evaluate(model, loader, device, limit):
    model.eval()
    errors = []
    with torch.no_grad():
        for k, (x, y) in enumerate(loader):
            if k >= limit:
                break

            def log_step(model_squeeze):
                errors.extend(model_squeeze.tolist())

            xm.add_step_closure(log_step, args=((model(x) - y).abs().squeeze(1),))
    gathered = [None] * WORLD
    gathered[:] = xm.mesh_reduce("evaluate", errors, list)
    flat = [e for part in gathered for e in part]
    return sum(flat) / max(1, len(flat))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", default=3, type=int)
    parser.add_argument("--batch", default=8, type=int)
    parser.add_argument("--resume", default="last.pth")
    parser.add_argument("--target", type=float, default=0.0)
    args = parser.parse_args()

    device = xm.xla_device()
    seed_all(7)

    x = torch.linspace(-1, 1, 96).unsqueeze(1)
    full = TensorDataset(x, x**2)
    train, held = Subset(full, range(0, 80)), Subset(full, range(80, 96))
    sampler = DistributedSampler(
        train, num_replicas=WORLD, rank=RANK, shuffle=True, seed=1
    )
    loader = DataLoader(train, batch_size=args.batch, sampler=sampler)
    loader = pl.MpDeviceLoader(loader, device)
    held_loader = DataLoader(
        held, batch_size=4, sampler=DistributedSampler(held, WORLD, RANK, shuffle=False)
    )
    held_loader = pl.MpDeviceLoader(held_loader, device)

    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    start, best = 0, float("inf")
    if os.path.isfile(args.resume):
        saved = torch.load(args.resume, map_location="cpu")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optim"])
        start, best = saved["epoch"] + 1, saved["best"]
        log("resumed at", start)
    ddp = model
    xm.collective_broadcast([*ddp.parameters(), *ddp.buffers()])

    stop = torch.zeros(1, dtype=torch.int32, device=device)
    for epoch in range(start, args.epochs):
        ddp.train()
        sampler.set_epoch(epoch)
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(ddp(xb), yb)
            loss.backward()
            xm.optimizer_step(optimizer)
        error = evaluate(ddp, held_loader, device, limit=10)
        log(f"epoch {epoch} error {error:.5f}")
        is_best = error < best
        best = min(error, best)
        if is_best:
            state = {
                "model": ddp.state_dict(),
                "optim": optimizer.state_dict(),
            }
            xm.save({**state, "epoch": epoch, "best": best}, args.resume)
        if RANK == 0 and error < args.target:
            stop.fill_(1)
        xm.collective_broadcast([stop], 0)
        if stop.item():
            break


def _mp_fn(index):
    global LOCAL, RANK, WORLD
    RANK = xm.get_ordinal()
    WORLD = xm.xrt_world_size()
    LOCAL = xm.get_local_ordinal()

    main()


if __name__ == "__main__":
    _mp_fn(0)
