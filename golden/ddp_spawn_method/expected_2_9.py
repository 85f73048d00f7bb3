"""A trainer that starts its own processes: a method of it, with its options bound by functools.partial."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.runtime as xr
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, args):
        self.args = args
        self.best = float("inf")

    def loader(self, rank, world_size):
        torch.manual_seed(self.args.seed)
        torch_xla.manual_seed(self.args.seed)
        x = torch.randn(96, 12)
        y = (x[:, :4].sum(1) > 0).long()
        sampler = DistributedSampler(TensorDataset(x, y), world_size, rank, shuffle=True)
        return pl.MpDeviceLoader(DataLoader(sampler.dataset, batch_size=self.args.batch_size, sampler=sampler), torch_xla.device()), sampler

    def work(self, rank, epochs):
        world_size = xr.world_size()
        loader, sampler = self.loader(rank, world_size)
        model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2)).to(torch_xla.device())
        xm.broadcast_master_param(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=self.args.lr)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            total = torch.zeros(1, device=torch_xla.device())
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                xm.optimizer_step(optimizer)
                total += loss.detach()
            xm.all_reduce("sum", [total])
            self.finish(epoch, model, total.item() / (len(loader) * world_size), rank)

    def finish(self, epoch, model, loss, rank):
        if rank == 0:
            print(f"epoch {epoch}: {loss:.4f}")
        if loss < self.best:
            self.best = loss
            xm.save({"epoch": epoch, "model": model.state_dict()}, "best.pt")

    def fit(self):
        torch_xla.launch(self.work, args=(self.args.epochs,))


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
