import argparse
import os

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset
from torch_xla.amp import GradScaler, autocast, syncfree

parser = argparse.ArgumentParser()
parser.add_argument("--out", default="runs")
parser.add_argument("--epochs", type=int, default=2, help="epochs of each stage")
parser.add_argument("--resume", default="", help="start from this checkpoint")
parser.add_argument("--fp32", action="store_true")
parser.add_argument("--gpu", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(17)
xm.set_rng_state(17)
device = xm.xla_device()


def get_loader():
    x = torch.randn(96, 12)
    y = (x[:, :4].sum(1) > x[:, 4:8].sum(1)).long() + (x[:, 8] > 1).long()
    return pl.MpDeviceLoader(
        DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True, drop_last=True),
        device,
    )


def save_checkpoint(path, epoch, model, optimizer, scaler, best):
    state = {
        "epoch": epoch,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scaler": scaler.state_dict(),
        "best": best,
        "rng": torch.get_rng_state(),
    }
    xm.save(state, path)


def load_checkpoint(path, model, optimizer, scaler):
    loc = "cpu"
    state = torch.load(path, map_location=loc)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    for optimizer_state in optimizer.state.values():
        optimizer_state.update(
            {
                k: v.to(xm.xla_device())
                for k, v in optimizer_state.items()
                if torch.is_tensor(v)
            }
        )
    scaler.load_state_dict(state["scaler"])
    torch.set_rng_state(state["rng"].cpu())
    # older files were written from the CPU, bring the moments over
    for values in optimizer.state.values():
        for key, value in values.items():
            if torch.is_tensor(value):
                values[key] = value.to(device)
    return state["epoch"] + 1, state["best"]


def build():
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 3)).to(device)
    optimizer = syncfree.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return model, optimizer, GradScaler(enabled=not args.fp32)


def train_stage(loader, last_epoch, resume):
    model, optimizer, scaler = build()
    start, best = 0, float("inf")
    if resume and os.path.isfile(resume):
        start, best = load_checkpoint(resume, model, optimizer, scaler)
        print(f"=> resumed from {os.path.basename(resume)} at epoch {start}")
    criterion = nn.CrossEntropyLoss()
    for epoch in range(start, last_epoch):
        total = 0.0
        for x, y in loader:
            with autocast(enabled=not args.fp32):
                loss = criterion(model(x), y)
            scaler.scale(loss).backward()
            xm.all_reduce(
                "sum", xm._fetch_gradients(optimizer), scale=1.0 / xm.xrt_world_size()
            )
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            total += loss.detach().float()
        total = float(total)
        total /= len(loader)
        print(f"epoch {epoch} loss {total:.4f}")
        save_checkpoint(
            os.path.join(args.out, "last.pt"),
            epoch,
            model,
            optimizer,
            scaler,
            min(best, total),
        )
        if total < best:
            best = total
            xm.save(model.state_dict(), os.path.join(args.out, "best.pt"))
    return best


os.makedirs(args.out, exist_ok=True)
feed = get_loader()
train_stage(feed, args.epochs, args.resume)
# second stage starts from the file the first one left behind
best = train_stage(feed, 2 * args.epochs, os.path.join(args.out, "last.pt"))
print("best", round(best, 4))
