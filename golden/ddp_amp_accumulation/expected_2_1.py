"""Mixed precision, gradient accumulation and clipping under DDP; torchrun --nproc_per_node=N native.py"""

import argparse

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.runtime as xr
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from torch_xla.amp import GradScaler, syncfree


def spectra(count=192, width=16):
    g = torch.Generator().manual_seed(5)
    x = torch.randn(count, width, generator=g)
    y = (x[:, :4].sum(1, keepdim=True) > 0).float()
    return TensorDataset(x, y)


def build(width=16):
    return nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, 1))


def train_one_epoch(model, loader, criterion, optimizer, scaler, device, args):
    model.train()
    optimizer.zero_grad()
    running = 0.0
    for step, (x, y) in enumerate(loader):
        with torch.autocast("xla", dtype=torch.bfloat16, enabled=args.amp):
            loss = criterion(model(x), y) / args.accumulate
        scaler.scale(loss).backward()
        if (step + 1) % args.accumulate == 0 or step + 1 == len(loader):
            xm.reduce_gradients(optimizer)
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        running += loss.detach().float() * args.accumulate
    running = float(running)
    return running / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--accumulate", type=int, default=3)
    parser.add_argument("--clip", type=float, default=0.5)
    parser.add_argument("--amp", action="store_true")
    args = parser.parse_args()

    device = xm.xla_device()
    torch.manual_seed(0)
    xm.set_rng_state(0)

    dataset = spectra()
    sampler = DistributedSampler(dataset, num_replicas=xr.world_size(), rank=xr.global_ordinal())
    loader = DataLoader(dataset, args.batch_size, sampler=sampler, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)
    model = build().to(device)
    xm.broadcast_master_param(model)
    optimizer = syncfree.AdamW(model.parameters(), lr=3e-3)
    criterion = nn.BCEWithLogitsLoss()
    scaler = GradScaler(enabled=args.amp)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        loss = train_one_epoch(model, loader, criterion, optimizer, scaler, device, args)
        if xr.global_ordinal() == 0:
            print(f"epoch {epoch} loss {loss:.4f}")


def _mp_fn(index):
    main()


if __name__ == "__main__":
    xmp.spawn(_mp_fn)
