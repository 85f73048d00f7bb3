"""Weather stations: one GPU, the usual train / validate loop, best model kept in a checkpoint."""

import argparse

import torch
import torch.nn as nn
import torch.optim as optim
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset
from torch.utils.data import DistributedSampler


class Stations(Dataset):
    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        self.readings = torch.randn(count, 12, generator=g)
        self.warmer = (self.readings[:, :3].sum(1) > self.readings[:, 3:6].sum(1)).long()

    def __len__(self):
        return len(self.readings)

    def __getitem__(self, index):
        return self.readings[index], self.warmer[index]


def get_loaders(args):
    train_data = Stations(160, seed=1)
    train_sampler = DistributedSampler(
        train_data,
        num_replicas=xm.xrt_world_size(),
        rank=xm.get_ordinal(),
        shuffle=not args.in_order,
        drop_last=True,
    )
    train_loader = DataLoader(
        train_data,
        batch_size=args.batch_size,
        sampler=train_sampler,
        drop_last=True,
    )
    val_loader = DataLoader(Stations(60, seed=2), batch_size=60)
    return train_loader, val_loader


def train(model, loader, criterion, optimizer, device, epoch):
    model.train()
    for step, (x, y) in enumerate(pl.MpDeviceLoader(loader, device)):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        xm.all_reduce("sum", xm._fetch_gradients(optimizer), scale=1.0 / xm.xrt_world_size())
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
    xm.master_print(f"epoch {epoch}: {len(loader)} steps of {loader.batch_size}")


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    hits = 0
    for x, y in pl.MpDeviceLoader(loader, device):
        hits += (model(x).argmax(1) == y).sum()
    hits = int(hits)
    return hits / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--in-order", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(17)
    xm.set_rng_state(17)
    device = xm.xla_device()

    train_loader, val_loader = get_loaders(args)
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 2)).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

    for epoch in range(1, args.epochs + 1):
        train_loader.sampler.set_epoch(epoch)
        train(model, train_loader, criterion, optimizer, device, epoch)
        accuracy = validate(model, val_loader, device)
        xm.master_print(f"accuracy {accuracy:.3f}")
    xm.save(model.state_dict(), "stations.pt")


def _mp_fn(index):
    main()


if __name__ == "__main__":
    _mp_fn(0)
