"""Two-layer regressor under DDP that keeps the last and the best checkpoint and can go on from either.

torchrun --nproc_per_node=2 native.py --epochs 3
torchrun --nproc_per_node=2 native.py --epochs 6 --resume runs/last.pt
"""

import argparse
import os
import shutil

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def make_data(count, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 6, generator=generator)
    return TensorDataset(x, x.sum(dim=1, keepdim=True).sin())


def is_main_process():
    return xm.get_ordinal() == 0


def reduce_mean(value):
    total = value.detach().clone()
    xm.all_reduce("sum", [total])
    return total / xm.xrt_world_size()


def train_epoch(model, loader, criterion, optimizer, device):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        xm.optimizer_step(optimizer)


@torch.no_grad()
def validate(model, loader, criterion, device):
    model.eval()
    total = torch.zeros(1, device=device)
    for x, y in loader:
        total += criterion(model(x), y)
    return reduce_mean(total / len(loader)).item()


def save_checkpoint(state, is_best, folder):
    if xm.is_master_ordinal(local=False):
        os.makedirs(folder, exist_ok=True)
    last = os.path.join(folder, "last.pt")
    xm.save(state, last)
    if xm.is_master_ordinal(local=False) and is_best:
        shutil.copyfile(last, os.path.join(folder, "best.pt"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--folder", default="runs")
    parser.add_argument("--resume", default="")
    args = parser.parse_args()

    device = xm.xla_device()
    torch.manual_seed(5)
    xm.set_rng_state(5)

    train_set, val_set = make_data(128, 1), make_data(64, 2)
    sampler = DistributedSampler(
        train_set,
        num_replicas=xm.xrt_world_size(),
        rank=xm.get_ordinal(),
        drop_last=True,
    )
    train_loader = DataLoader(
        train_set, args.batch_size, sampler=sampler, drop_last=True
    )
    train_loader = pl.MpDeviceLoader(train_loader, device)
    val_loader = DataLoader(
        val_set,
        args.batch_size,
        sampler=DistributedSampler(
            val_set,
            num_replicas=xm.xrt_world_size(),
            rank=xm.get_ordinal(),
            shuffle=False,
        ),
    )
    val_loader = pl.MpDeviceLoader(val_loader, device)

    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    xm.collective_broadcast([*model.parameters(), *model.buffers()])
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    start_epoch, best_loss = 0, float("inf")
    if args.resume:
        checkpoint = torch.load(args.resume, map_location="cpu")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        start_epoch, best_loss = checkpoint["epoch"], checkpoint["best_loss"]

    for epoch in range(start_epoch, args.epochs):
        sampler.set_epoch(epoch)
        train_epoch(model, train_loader, criterion, optimizer, device)
        val_loss = validate(model, val_loader, criterion, device)

        is_best = val_loss < best_loss
        best_loss = min(val_loss, best_loss)
        if is_main_process():
            print(f"epoch {epoch + 1}: validation loss {val_loss:.5f}")
        save_checkpoint(
            {
                "epoch": epoch + 1,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "best_loss": best_loss,
            },
            is_best,
            args.folder,
        )

    # All ranks go on from the best weights, which rank 0 has written.
    xm.rendezvous("main")
    best = torch.load(os.path.join(args.folder, "best.pt"), map_location="cpu")
    model.load_state_dict(best["model"])
    final = validate(model, val_loader, criterion, device)
    if is_main_process():
        print(f"best epoch {best['epoch']}: {final:.5f}")


def _mp_fn(index):
    main()


if __name__ == "__main__":
    _mp_fn(0)
