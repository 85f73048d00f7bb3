"""Data parallel training without a wrapper: broadcast once, average the gradients by hand."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 24)
        self.fc2 = nn.Linear(24, 4)

    def forward(self, x):
        return F.log_softmax(self.fc2(torch.tanh(self.fc1(x))), dim=1)


def average_gradients(model):
    """Gradient averaging."""
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


def run(rank, size):
    # equal seeds make equal models
    torch.manual_seed(1234)
    data = TensorDataset(torch.randn(128, 20), torch.randint(0, 4, (128,)))
    sampler = DistributedSampler(data, num_replicas=size, rank=rank, seed=3)
    train_set = DataLoader(data, batch_size=128 // 4 // size, sampler=sampler)
    model = Net().cuda(rank)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.5)

    for epoch in range(3):
        sampler.set_epoch(epoch)
        epoch_loss = 0.0
        for data, target in train_set:
            data, target = data.cuda(rank), target.cuda(rank)
            optimizer.zero_grad()
            output = model(data)
            loss = F.nll_loss(output, target)
            epoch_loss += loss.item()
            loss.backward()
            average_gradients(model)
            optimizer.step()
        print("Rank", rank, "epoch", epoch, "loss", round(epoch_loss / len(train_set), 5))


def init_process(rank, size, fn, backend="nccl"):
    """Initialize the distributed environment."""
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29500"
    dist.init_process_group(backend, rank=rank, world_size=size)
    fn(rank, size)


def worker(rank, size):
    init_process(rank, size, run)


if __name__ == "__main__":
    size = torch.cuda.device_count()
    mp.spawn(worker, args=(size,), nprocs=size)
