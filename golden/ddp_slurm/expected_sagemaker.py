"""Next-value regression on a cluster:  srun --ntasks-per-node=N --gpus-per-task=1 python native.py"""

import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Forecaster(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.rnn = nn.LSTM(1, width, batch_first=True)
        self.out = nn.Linear(width, 1)

    def forward(self, series):
        states, _ = self.rnn(series)
        return self.out(states[:, -1])


def waves(count=64, length=12):
    phase = torch.linspace(0, 6.0, count).unsqueeze(1)
    steps = torch.arange(length + 1) * 0.4
    series = torch.sin(phase + steps)
    return TensorDataset(series[:, :-1].unsqueeze(-1), series[:, -1:])


def train(args, model, device, loader, optimizer, epoch, rank):
    model.train()
    for batch_idx, (series, following) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.mse_loss(model(series), following)
        loss.backward()
        xm.optimizer_step(optimizer)
        if batch_idx % args.log_interval == 0:

            def log_step(batch_idx, loss):
                if rank == 0:
                    print(f"epoch {epoch} step {batch_idx} loss {loss.item():.6f}")

            xm.add_step_closure(log_step, args=(batch_idx, loss))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--log-interval", type=int, default=2)
    args = parser.parse_args()

    rank = xm.get_ordinal()
    world_size = xm.xrt_world_size()
    gpus_per_node = int(os.environ["GPU_NUM_DEVICES"])
    local_rank = rank - gpus_per_node * (rank // gpus_per_node)

    torch.manual_seed(5)
    xm.set_rng_state(5)
    dataset = waves()
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank)
    device = xm.xla_device()
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)
    model = Forecaster().to(device)
    ddp_model = model
    xm.collective_broadcast([*ddp_model.parameters(), *ddp_model.buffers()])
    optimizer = torch.optim.Adam(ddp_model.parameters(), lr=args.lr)

    for epoch in range(1, args.epochs + 1):
        sampler.set_epoch(epoch)
        train(args, ddp_model, local_rank, loader, optimizer, epoch, rank)
    xm.save(model.state_dict(), "forecaster.pt")


def _mp_fn(index):
    main()


if __name__ == "__main__":
    _mp_fn(0)
