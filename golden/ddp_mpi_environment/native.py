"""Fits a curve; start it with  mpirun -np N python native.py  or torchrun: a helper reads what either launcher gives."""

import argparse
import os
import random
import sys

import numpy as np
import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset


def env_int(*names, default=0):
    for name in names:
        value = os.environ.get(name)
        if value is not None:
            return int(value)
    return default


RANK = env_int("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK")
WORLD = env_int("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE", default=1)
LOCAL = env_int("OMPI_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK")


def log(*words):
    if RANK != 0:
        return
    print(*words)
    sys.stdout.flush()


def seed_all(seed):
    random.seed(seed + RANK)
    np.random.seed(seed + RANK)
    torch.manual_seed(seed + RANK)
    torch.cuda.manual_seed_all(seed + RANK)


def evaluate(model, loader, device, limit):
    model.eval()
    errors = []
    with torch.no_grad():
        for k, (x, y) in enumerate(loader):
            if k >= limit:
                break
            x, y = x.to(device), y.to(device)
            errors.extend((model(x) - y).abs().squeeze(1).tolist())
    gathered = [None] * WORLD
    dist.all_gather_object(gathered, errors)
    flat = [e for part in gathered for e in part]
    return sum(flat) / max(1, len(flat))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", default=3, type=int)
    parser.add_argument("--batch", default=8, type=int)
    parser.add_argument("--resume", default="last.pth")
    parser.add_argument("--target", type=float, default=0.0)
    args = parser.parse_args()

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29512")
    dist.init_process_group("nccl", rank=RANK, world_size=WORLD)
    torch.cuda.set_device(LOCAL)
    device = torch.device(f"cuda:{LOCAL}")
    seed_all(7)

    x = torch.linspace(-1, 1, 96).unsqueeze(1)
    full = TensorDataset(x, x**2)
    train, held = Subset(full, range(0, 80)), Subset(full, range(80, 96))
    sampler = DistributedSampler(
        train, num_replicas=WORLD, rank=RANK, shuffle=True, seed=1
    )
    loader = DataLoader(train, batch_size=args.batch, sampler=sampler)
    held_loader = DataLoader(
        held, batch_size=4, sampler=DistributedSampler(held, WORLD, RANK, shuffle=False)
    )

    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    start, best = 0, float("inf")
    if os.path.isfile(args.resume):
        saved = torch.load(args.resume, map_location={"cuda:0": f"cuda:{LOCAL}"})
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optim"])
        start, best = saved["epoch"] + 1, saved["best"]
        log("resumed at", start)
    ddp = DistributedDataParallel(model, device_ids=[LOCAL], output_device=LOCAL)

    stop = torch.zeros(1, dtype=torch.int32, device=device)
    for epoch in range(start, args.epochs):
        ddp.train()
        sampler.set_epoch(epoch)
        for xb, yb in loader:
            xb, yb = xb.cuda(LOCAL, non_blocking=True), yb.cuda(
                LOCAL, non_blocking=True
            )
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(ddp(xb), yb)
            loss.backward()
            optimizer.step()
        error = evaluate(ddp, held_loader, device, limit=10)
        log(f"epoch {epoch} error {error:.5f}")
        if RANK == 0:
            is_best = error < best
            best = min(error, best)
            if is_best:
                state = {
                    "model": ddp.module.state_dict(),
                    "optim": optimizer.state_dict(),
                }
                torch.save({**state, "epoch": epoch, "best": best}, args.resume)
            if error < args.target:
                stop.fill_(1)
        dist.broadcast(stop, src=0)
        if stop.item():
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
