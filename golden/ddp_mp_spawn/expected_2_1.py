"""Digits on all GPUs of one machine: one process a GPU, started by torch.multiprocessing.spawn."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.runtime as xr
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.fc = nn.Linear(8 * 4 * 4, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        x = F.max_pool2d(x, 2)
        return self.fc(x.flatten(1))


def digits(count):
    generator = torch.Generator().manual_seed(7)
    images = torch.randn(count, 1, 8, 8, generator=generator)
    labels = torch.randint(0, 10, (count,), generator=generator)
    return TensorDataset(images, labels)


def train_epoch(model, loader, optimizer, rank, epoch, log_interval):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        xm.optimizer_step(optimizer)
        if batch_idx % log_interval == 0:

            def log_step(batch_idx, loss):
                if rank == 0:
                    print(f"epoch {epoch} step {batch_idx} loss {loss.item():.6f}")

            xm.add_step_closure(log_step, args=(batch_idx, loss))


def main_worker(rank, args):
    world_size = xr.world_size()
    torch.manual_seed(args.seed)
    xm.set_rng_state(args.seed)

    dataset = digits(128)
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=True)
    device = xm.xla_device()
    # The sampler shuffles, so the loader must not.
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, shuffle=False)
    loader = pl.MpDeviceLoader(loader, device)

    model = ConvNet().to(device)
    xm.broadcast_master_param(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        train_epoch(model, loader, optimizer, rank, epoch, args.log_interval)

    xm.rendezvous("main_worker")
    xm.save(model.state_dict(), args.output)


def main():
    parser = argparse.ArgumentParser(description="DDP over all GPUs of this machine")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16, help="batch size of each process")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-interval", type=int, default=2)
    parser.add_argument("--output", default="digits.pt")
    args = parser.parse_args()

    xmp.spawn(main_worker, args=(args,))


if __name__ == "__main__":
    main()
