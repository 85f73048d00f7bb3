"""Next-value regression on a cluster:  srun --ntasks-per-node=N --gpus-per-task=1 python native.py"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
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
        series, following = series.to(device), following.to(device)
        optimizer.zero_grad()
        loss = F.mse_loss(model(series), following)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0 and rank == 0:
            print(f"epoch {epoch} step {batch_idx} loss {loss.item():.6f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--log-interval", type=int, default=2)
    args = parser.parse_args()

    rank = int(os.environ["SLURM_PROCID"])
    world_size = int(os.environ["SLURM_NTASKS"])
    gpus_per_node = torch.cuda.device_count()
    local_rank = rank - gpus_per_node * (rank // gpus_per_node)
    os.environ.setdefault("MASTER_PORT", "29501")
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(local_rank)

    torch.manual_seed(5)
    dataset = waves()
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    model = Forecaster().to(local_rank)
    ddp_model = DDP(model, device_ids=[local_rank])
    optimizer = torch.optim.Adam(ddp_model.parameters(), lr=args.lr)

    for epoch in range(1, args.epochs + 1):
        sampler.set_epoch(epoch)
        train(args, ddp_model, local_rank, loader, optimizer, epoch, rank)
    if rank == 0:
        torch.save(model.state_dict(), "forecaster.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
