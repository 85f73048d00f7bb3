"""Mixed precision, gradient accumulation and clipping under DDP; torchrun --nproc_per_node=N native.py"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.cuda.amp import GradScaler, autocast
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


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
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        with autocast(enabled=args.amp):
            loss = criterion(model(x), y) / args.accumulate
        scaler.scale(loss).backward()
        if (step + 1) % args.accumulate == 0 or step + 1 == len(loader):
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        running += loss.item() * args.accumulate
    return running / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--accumulate", type=int, default=3)
    parser.add_argument("--clip", type=float, default=0.5)
    parser.add_argument("--amp", action="store_true")
    args = parser.parse_args()

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    torch.manual_seed(0)

    dataset = spectra()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, args.batch_size, sampler=sampler, drop_last=True)
    model = DDP(build().to(device), device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    criterion = nn.BCEWithLogitsLoss()
    scaler = GradScaler(enabled=args.amp)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        loss = train_one_epoch(model, loader, criterion, optimizer, scaler, device, args)
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {loss:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
