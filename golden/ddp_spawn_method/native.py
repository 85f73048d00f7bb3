"""A trainer that starts its own processes: a method of it, with its options bound by functools.partial."""
import argparse
import functools
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, args):
        self.args = args
        self.best = float("inf")

    def setup(self, rank, world_size):
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        os.environ["MASTER_PORT"] = self.args.port
        dist.init_process_group("nccl", rank=rank, world_size=world_size)
        torch.cuda.set_device(rank)

    def loader(self, rank, world_size):
        torch.manual_seed(self.args.seed)
        x = torch.randn(96, 12)
        y = (x[:, :4].sum(1) > 0).long()
        sampler = DistributedSampler(TensorDataset(x, y), world_size, rank, shuffle=True)
        return DataLoader(sampler.dataset, batch_size=self.args.batch_size, sampler=sampler), sampler

    def work(self, rank, world_size, epochs):
        self.setup(rank, world_size)
        loader, sampler = self.loader(rank, world_size)
        model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2)).cuda(rank)
        model = DDP(model, device_ids=[rank])
        optimizer = torch.optim.Adam(model.parameters(), lr=self.args.lr)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            total = torch.zeros(1, device=rank)
            for x, y in loader:
                x, y = x.cuda(rank, non_blocking=True), y.cuda(rank, non_blocking=True)
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.detach()
            dist.all_reduce(total)
            self.finish(epoch, model, total.item() / (len(loader) * world_size), rank)
        dist.destroy_process_group()

    def finish(self, epoch, model, loss, rank):
        if rank == 0:
            print(f"epoch {epoch}: {loss:.4f}")
        if loss < self.best:
            self.best = loss
            if rank == 0:
                torch.save({"epoch": epoch, "model": model.module.state_dict()}, "best.pt")

    def fit(self):
        gpus = torch.cuda.device_count()
        work = functools.partial(self.work, world_size=gpus, epochs=self.args.epochs)
        mp.spawn(work, nprocs=gpus, join=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--port", default="29511")
    Trainer(parser.parse_args()).fit()


if __name__ == "__main__":
    main()
