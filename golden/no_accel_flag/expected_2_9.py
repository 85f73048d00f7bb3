"""Which of four waveforms is it? A small network over time series, on whatever accelerator there is."""
import argparse

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class WaveNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, 6, 5, stride=2), nn.ReLU(), nn.Conv1d(6, 12, 5, stride=2), nn.ReLU()
        )
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(12 * 5, classes)

    def forward(self, waves):
        hidden = self.features(waves).flatten(1)
        return self.head(self.dropout(hidden))


def waves(count, seed):
    rng = torch.Generator().manual_seed(seed)
    kinds = torch.randint(4, (count,), generator=rng)
    phase = torch.rand(count, 1, generator=rng)
    time = torch.linspace(0, 3, 32) + phase
    shapes = torch.stack([
        torch.sin(6.28 * time), (time % 1) * 2 - 1, (6.28 * time).sin().sign(), torch.zeros_like(time)
    ])
    signal = shapes[kinds, torch.arange(count)]
    signal = signal + 0.2 * torch.randn(count, 32, generator=rng)
    return TensorDataset(signal.unsqueeze(1), kinds)


def run_epoch(args, model, device, loader, optimizer, epoch):
    model.train()
    seen = 0
    device_loader = loader
    if device.type == "xla":
        device_loader = pl.MpDeviceLoader(loader, device)
    for step, (signal, kind) in enumerate(device_loader):
        loss = nn.functional.cross_entropy(model(signal), kind)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        seen += len(signal)
        if step % args.log_interval == 0:
            torch_xla.sync()
            print(f"epoch {epoch} {seen:4d}/{len(loader.dataset)} loss {loss.item():.5f}")
            if args.dry_run:
                break


@torch.no_grad()
def evaluate(model, device, loader):
    model.eval()
    loss_sum, hits = 0.0, 0
    device_loader = loader
    if device.type == "xla":
        device_loader = pl.MpDeviceLoader(loader, device)
    for signal, kind in device_loader:
        scores = model(signal)
        loss_sum += nn.functional.cross_entropy(scores, kind, reduction="sum")
        hits += (scores.argmax(1) == kind).sum()
    loss_sum = float(loss_sum)
    hits = int(hits)
    total = len(loader.dataset)
    print(f"held out: loss {loss_sum / total:.4f}, {hits} of {total} right")


def main():
    parser = argparse.ArgumentParser(description="waveforms")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--test-batch-size", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.3)
    parser.add_argument("--decay", type=float, default=0.8)
    parser.add_argument("--no-accel", action="store_true", help="stay on the CPU")
    parser.add_argument("--dry-run", action="store_true", help="one step an epoch")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--log-interval", type=int, default=4)
    parser.add_argument("--save-model", action="store_true")
    args = parser.parse_args()

    use_accel = not args.no_accel
    if use_accel:
        device = torch_xla.device()
    else:
        device = torch.device("cpu")
    torch.manual_seed(args.seed)
    torch_xla.manual_seed(args.seed)

    train_options, test_options = {"batch_size": args.batch_size}, {"batch_size": args.test_batch_size}
    if use_accel:
        more = {"pin_memory": True, "shuffle": True}
        train_options |= more
        test_options |= more
    train_loader = DataLoader(waves(128, seed=1), **train_options)
    test_loader = DataLoader(waves(72, seed=2), **test_options)

    model = WaveNet().to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=args.decay)
    for epoch in range(args.epochs):
        run_epoch(args, model, device, train_loader, optimizer, epoch)
        evaluate(model, device, test_loader)
        scheduler.step()
    if args.save_model:
        xm.save(model.state_dict(), "waves.pt")


if __name__ == "__main__":
    main()
