"""Autoencoder on all GPUs; the first process writes scalars, histograms and a text log."""

import argparse
import json
import os
import time

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class EventWriter:
    """Lines of JSON, one for each event."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.file = open(os.path.join(folder, "events.jsonl"), "w")

    def add_scalar(self, tag, value, step):
        self.file.write(
            json.dumps({"tag": tag, "value": round(float(value), 4), "step": step})
            + "\n"
        )

    def add_histogram(self, tag, values, step):
        counts = torch.histc(values.detach().cpu(), bins=4, min=-1, max=1)
        self.file.write(
            json.dumps({"tag": tag, "counts": counts.tolist(), "step": step}) + "\n"
        )

    def close(self):
        self.file.close()


class Autoencoder(nn.Module):
    def __init__(self, width=24, code=4):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(width, 12), nn.ReLU(), nn.Linear(12, code)
        )
        self.decoder = nn.Sequential(
            nn.Linear(code, 12), nn.ReLU(), nn.Linear(12, width)
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


def worker(rank, args):
    world_size = xm.xrt_world_size()
    torch.manual_seed(args.seed)
    xm.set_rng_state(args.seed)

    rows = torch.randn(128, 24, generator=torch.Generator().manual_seed(0))
    dataset = TensorDataset(rows)
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank)
    device = xm.xla_device()
    loader = DataLoader(
        dataset, batch_size=args.batch_size, sampler=sampler, drop_last=True
    )
    loader = pl.MpDeviceLoader(loader, device)

    model = Autoencoder().to(device)
    xm.collective_broadcast([*model.parameters(), *model.buffers()])
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    writer = EventWriter(args.log_dir) if rank == 0 else None

    step = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        began = time.time()
        running = 0.0
        for i, (x,) in enumerate(loader):
            loss = nn.functional.mse_loss(model(x), x)
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
            running += loss.detach()
            step += 1
            if step % args.log_every == 0:

                def log_step(loss, step):
                    if writer is not None:
                        writer.add_scalar("train/loss", loss.item(), step)
                        writer.add_scalar(
                            "train/lr", optimizer.param_groups[0]["lr"], step
                        )

                xm.add_step_closure(log_step, args=(loss, step))
            if i == 0:

                def log_step_2(epoch, loss):
                    if rank == 0:
                        print(f"epoch {epoch} starts at {loss.item():.5f}")

                xm.add_step_closure(log_step_2, args=(epoch, loss))
        running = float(running)

        norm = sum(p.norm() ** 2 for p in model.parameters()).sqrt()
        norm_value = norm.item()
        weight_value = model.encoder[0].weight.cpu()
        if rank == 0:
            took = time.time() - began
            writer.add_scalar("epoch/loss", running / len(loader), epoch)
            writer.add_scalar("epoch/norm", norm_value, epoch)
            writer.add_histogram("encoder", weight_value, epoch)
            print(
                f"epoch {epoch}: loss {running / len(loader):.5f}, norm {norm_value:.4f}"
            )
            if args.verbose:
                print(f"took {took:.1f} s")

    if writer is not None:
        writer.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--log-every", type=int, default=2)
    parser.add_argument("--log-dir", default="log")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()

    worker(xm.get_ordinal(), args)


def _mp_fn(index):
    main()


if __name__ == "__main__":
    _mp_fn(0)
