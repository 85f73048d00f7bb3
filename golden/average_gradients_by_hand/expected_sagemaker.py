"""Data parallel training without a wrapper: broadcast once, average the gradients by hand."""

import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 24)
        self.fc2 = nn.Linear(24, 4)

    def forward(self, x):
        return F.log_softmax(self.fc2(torch.tanh(self.fc1(x))), dim=1)


def run(rank, size):
    # equal seeds make equal models
    torch.manual_seed(1234)
    xm.set_rng_state(1234)
    data = TensorDataset(torch.randn(128, 20), torch.randint(0, 4, (128,)))
    sampler = DistributedSampler(data, num_replicas=size, rank=rank, seed=3)
    device = xm.xla_device()
    train_set = DataLoader(data, batch_size=128 // 4 // size, sampler=sampler)
    train_set = pl.MpDeviceLoader(train_set, device)
    model = Net().to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.5)

    for epoch in range(3):
        sampler.set_epoch(epoch)
        epoch_loss = 0.0
        for data, target in train_set:
            optimizer.zero_grad()
            output = model(data)
            loss = F.nll_loss(output, target)
            epoch_loss += loss.detach()
            loss.backward()
            xm.all_reduce("sum", xm._fetch_gradients(optimizer), scale=1.0 / xm.xrt_world_size())
            optimizer.step()
        epoch_loss = float(epoch_loss)
        print("Rank", rank, "epoch", epoch, "loss", round(epoch_loss / len(train_set), 5))


def init_process(rank, size, fn, backend="nccl"):
    """Initialize the distributed environment."""
    fn(rank, size)


def worker(rank):
    size = xm.xrt_world_size()
    init_process(rank, size, run)


def _mp_fn(index):
    worker(xm.get_ordinal())


if __name__ == "__main__":
    _mp_fn(0)
