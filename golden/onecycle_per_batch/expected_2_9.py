import argparse

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn, optim
from torch.optim.lr_scheduler import LinearLR, OneCycleLR, SequentialLR
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch_size", type=int, default=10)
    ap.add_argument("--max_lr", type=float, default=0.1)
    ap.add_argument("--sched", choices=["onecycle", "warmup"], default="onecycle")
    ap.add_argument("--cpu", action="store_true", help="force the CPU")
    return ap.parse_args()


def build_scheduler(args, optimizer, steps_per_epoch):
    if args.sched == "onecycle":
        return OneCycleLR(
            optimizer,
            max_lr=args.max_lr,
            epochs=args.epochs,
            steps_per_epoch=steps_per_epoch,
        )
    warm = LinearLR(optimizer, start_factor=0.1, total_iters=5)
    flat = LinearLR(optimizer, start_factor=1.0, end_factor=1.0)
    return SequentialLR(optimizer, [warm, flat], milestones=[5])


def main():
    args = get_args()
    torch.manual_seed(2024)
    torch_xla.manual_seed(2024)
    if args.cpu:
        device = torch.device("cpu")
    else:
        device = torch_xla.device()
    print("training", args.sched, "for", args.epochs, "epochs")

    features = torch.randn(90, 16)
    teacher = torch.randn(16, 5)
    targets = (features @ teacher).argmax(1)
    loader = DataLoader(
        TensorDataset(features, targets), args.batch_size, shuffle=True, drop_last=True
    )
    if device.type == "xla":
        loader = pl.MpDeviceLoader(loader, device)

    net = nn.Sequential(nn.Linear(16, 40), nn.Tanh(), nn.Linear(40, 5)).to(device)
    optimizer = optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    scheduler = build_scheduler(args, optimizer, len(loader))
    loss_fn = nn.CrossEntropyLoss()

    lrs = []
    for epoch in range(args.epochs):
        epoch_loss = 0.0
        for features, targets in loader:
            optimizer.zero_grad()
            loss = loss_fn(net(features), targets)
            loss.backward()
            xm.optimizer_step(optimizer)
            scheduler.step()  # per batch, not per epoch
            lrs.append(scheduler.get_last_lr()[0])
            epoch_loss += loss.detach()
        epoch_loss = float(epoch_loss)
        print(f"{epoch + 1}/{args.epochs} loss={epoch_loss / len(loader):.4f}")
    print("lr:", ", ".join(f"{lr:.4f}" for lr in lrs[::6]))


if __name__ == "__main__":
    main()
