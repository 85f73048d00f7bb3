import argparse
import csv
import random

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, IterableDataset


class Lines(IterableDataset):
    """Reads one example a line, never the whole file."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        with open(self.path, newline="") as fh:
            for row in csv.reader(fh, delimiter="\t"):
                *features, label = row
                yield torch.tensor([float(f) for f in features]), int(label)


def write_table(path, rows, seed):
    rng = random.Random(seed)
    with open(path, "w", newline="") as fh:
        out = csv.writer(fh, delimiter="\t")
        for _ in range(rows):
            point = [rng.uniform(-1, 1) for _ in range(4)]
            label = int(point[0] + point[1] > 0) + int(point[2] > 0.5)
            out.writerow([f"{p:.5f}" for p in point] + [label])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--table", default="train.tsv")
    ap.add_argument("--lr", type=float, default=0.1)
    args = ap.parse_args()

    torch.manual_seed(0)
    torch_xla.manual_seed(0)
    write_table(args.table, rows=90, seed=5)
    gpu = True
    device = torch_xla.device() if gpu else "cpu"
    feed = DataLoader(Lines(args.table), batch_size=12)
    feed = pl.MpDeviceLoader(feed, device)
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)

    for epoch in range(3):
        total, batches = 0.0, 0
        for xs, ys in feed:
            opt.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(net(xs), ys)
            loss.backward()
            xm.optimizer_step(opt)
            total += loss.detach()
            batches += 1
        total = float(total)
        # an iterable has no length, the batches have to be counted
        print(f"epoch {epoch} loss {total / batches:.4f} ({batches} batches)")


if __name__ == "__main__":
    main()
