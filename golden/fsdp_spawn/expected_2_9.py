# After the tutorial "Getting Started with Fully Sharded Data Parallel": one wrapper, sizes decide what it wraps.
import argparse
import functools
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.runtime as xr
from torch.distributed.fsdp.fully_sharded_data_parallel import BackwardPrefetch
from torch.distributed.fsdp.wrap import enable_wrap, wrap
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import TensorDataset
from torch.utils.data.distributed import DistributedSampler
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP, consolidate_sharded_state_dicts
from torch_xla.distributed.fsdp.wrap import size_based_auto_wrap_policy


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.fc1 = nn.Linear(8 * 6 * 6, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv(x))
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


def digits(count, seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(count, 1, 8, 8, generator=generator)
    return TensorDataset(images, torch.randint(0, 10, (count,), generator=generator))


def train(args, model, rank, train_loader, optimizer, epoch, sampler=None):
    model.train()
    ddp_loss = torch.zeros(2).to(torch_xla.device())
    if sampler:
        sampler.set_epoch(epoch)
    for data, target in train_loader:
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target, reduction="sum")
        loss.backward()
        optimizer.step()
        ddp_loss[0] += loss.detach()
        ddp_loss[1] += len(data)

    xm.all_reduce("sum", [ddp_loss])
    ddp_loss_value = (ddp_loss[0] / ddp_loss[1]).cpu()
    if rank == 0:
        print("Train Epoch: {} \tLoss: {:.4f}".format(epoch, ddp_loss_value))


def test(model, rank, test_loader):
    model.eval()
    ddp_loss = torch.zeros(3).to(torch_xla.device())
    with torch.no_grad():
        for data, target in test_loader:
            output = model(data)
            ddp_loss[0] += F.nll_loss(output, target, reduction="sum")
            pred = output.argmax(dim=1, keepdim=True)
            ddp_loss[1] += pred.eq(target.view_as(pred)).sum()
            ddp_loss[2] += len(data)

    xm.all_reduce("sum", [ddp_loss])
    ddp_loss_value_ = (ddp_loss[0] / ddp_loss[2]).cpu()
    ddp_loss_value__ = int(ddp_loss[1])
    ddp_loss_value___ = int(ddp_loss[2])
    if rank == 0:
        print("Test set: Average loss: {:.4f}, Accuracy: {}/{}".format(
            ddp_loss_value_, ddp_loss_value__, ddp_loss_value___))


def fsdp_main(rank, args):
    world_size = xr.world_size()

    dataset1, dataset2 = digits(96, 1), digits(32, 2)
    sampler1 = DistributedSampler(dataset1, rank=rank, num_replicas=world_size, shuffle=True)
    sampler2 = DistributedSampler(dataset2, rank=rank, num_replicas=world_size)
    train_kwargs = {"batch_size": args.batch_size, "sampler": sampler1}
    test_kwargs = {"batch_size": args.batch_size, "sampler": sampler2}
    cuda_kwargs = {"num_workers": 0, "pin_memory": True, "shuffle": False}
    train_kwargs.update(cuda_kwargs)
    test_kwargs.update(cuda_kwargs)
    device = torch_xla.device()
    train_loader = torch.utils.data.DataLoader(dataset1, **train_kwargs)
    train_loader = pl.MpDeviceLoader(train_loader, device)
    test_loader = torch.utils.data.DataLoader(dataset2, **test_kwargs)
    test_loader = pl.MpDeviceLoader(test_loader, device)

    my_auto_wrap_policy = functools.partial(size_based_auto_wrap_policy, min_num_params=1000)

    model = Net().to(device)
    model = FSDP(model, auto_wrap_policy=my_auto_wrap_policy)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)

    init_start_event = time.perf_counter()
    for epoch in range(1, args.epochs + 1):
        train(args, model, rank, train_loader, optimizer, epoch, sampler=sampler1)
        test(model, rank, test_loader)
        scheduler.step()
    init_end_event = time.perf_counter()

    if args.save_model:
        xm.rendezvous("fsdp_main")  # all ranks are done training
        states = consolidate_sharded_state_dicts(xm.mesh_reduce("model_state", model.state_dict(), list), model.get_shard_metadata())
        xm.save(states, "mnist_cnn.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="FSDP on digits")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save-model", action="store_true", default=True)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch_xla.launch(fsdp_main, args=(args,))
