import argparse
import os
import random
import warnings

import torch
import torch.nn as nn
import torch.nn.parallel
import torch.optim
import torch.utils.data
import torch.utils.data.distributed
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.optim.lr_scheduler import StepLR

parser = argparse.ArgumentParser(description="Small images")
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("-b", "--batch-size", default=16, type=int, help="of all GPUs on the current node")
parser.add_argument("--lr", default=0.05, type=float)
parser.add_argument("--world-size", default=1, type=int, help="number of nodes")
parser.add_argument("--rank", default=0, type=int, help="node rank")
parser.add_argument("--dist-url", default="tcp://127.0.0.1:23456", type=str)
parser.add_argument("--dist-backend", default="nccl", type=str)
parser.add_argument("--seed", default=3, type=int)
parser.add_argument("--gpu", default=None, type=int, help="GPU id to use.")
parser.add_argument("--multiprocessing-distributed", action="store_true")

best_loss = 1e9


class Images(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(count, 3, 8, 8, generator=g)
        self.y = (self.x.mean((1, 2, 3)) > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def main():
    args = parser.parse_args()

    if args.seed is not None:
        random.seed(args.seed)
        torch.manual_seed(args.seed)
        xm.set_rng_state(args.seed)

    if args.gpu is not None:
        warnings.warn("You have chosen a specific GPU. This will completely disable data parallelism.")

    args.distributed = args.world_size > 1 or args.multiprocessing_distributed

    ngpus_per_node = int(os.environ["GPU_NUM_DEVICES"])
    if args.multiprocessing_distributed:
        args.world_size = xm.xrt_world_size()
        main_worker(xm.get_local_ordinal(), args)
    else:
        main_worker(args.gpu, args)


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    xm.save(state, filename)


def main_worker(gpu, args):
    ngpus_per_node = int(os.environ["GPU_NUM_DEVICES"])
    global best_loss
    args.gpu = gpu

    if args.gpu is not None:
        print("Use GPU: {} for training".format(args.gpu))

    if args.distributed:
        if args.multiprocessing_distributed:
            args.rank = xm.get_ordinal()
    torch.manual_seed(args.seed)
    xm.set_rng_state(args.seed)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2))

    if args.distributed:
        if True:
            if args.gpu is not None:
                model.to(xm.xla_device())
                args.batch_size = int(args.batch_size / ngpus_per_node)
                xm.collective_broadcast([*model.parameters(), *model.buffers()])
            else:
                model.to(xm.xla_device())
                xm.collective_broadcast([*model.parameters(), *model.buffers()])
    else:
        model = model.to(xm.xla_device())

    device = xm.xla_device()

    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.5)

    train_dataset, val_dataset = Images(64, 1), Images(32, 2)
    if args.distributed:
        train_sampler = torch.utils.data.distributed.DistributedSampler(train_dataset, num_replicas=xm.xrt_world_size(), rank=xm.get_ordinal())
        val_sampler = torch.utils.data.distributed.DistributedSampler(val_dataset, num_replicas=xm.xrt_world_size(), rank=xm.get_ordinal(), shuffle=False, drop_last=True)
    else:
        train_sampler = None
        val_sampler = None

    train_loader = torch.utils.data.DataLoader(
        train_dataset, batch_size=args.batch_size, shuffle=(train_sampler is None), sampler=train_sampler)
    train_loader = pl.MpDeviceLoader(train_loader, device)
    val_loader = torch.utils.data.DataLoader(
        val_dataset, batch_size=args.batch_size, shuffle=False, sampler=val_sampler)
    val_loader = pl.MpDeviceLoader(val_loader, device)

    for epoch in range(args.epochs):
        if args.distributed:
            train_sampler.set_epoch(epoch)
        train(train_loader, model, criterion, optimizer, epoch, device, args)
        loss = validate(val_loader, model, criterion, device, args)
        scheduler.step()
        is_best = loss < best_loss
        best_loss = min(loss, best_loss)

        save_checkpoint({"epoch": epoch + 1, "state_dict": model.state_dict(), "best": best_loss}, is_best)


def train(loader, model, criterion, optimizer, epoch, device, args):
    model.train()
    for i, (images, target) in enumerate(loader):
        output = model(images)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        if i % 2 == 0:

            def log_step(i, loss):
                print("epoch", epoch, "step", i, "loss", round(loss.item(), 5))

            xm.add_step_closure(log_step, args=(i, loss))


def validate(loader, model, criterion, device, args):
    total, count = 0.0, 0
    xm.collective_broadcast([*model.parameters(), *model.buffers()])
    model.eval()
    with torch.no_grad():
        for images, target in loader:
            total += criterion(model(images), target) * len(images)
            count += len(images)
        total = float(total)
    sums = torch.tensor([total, count], dtype=torch.float32, device=device)
    if args.distributed:
        xm.all_reduce("sum", [sums])
    return (sums[0] / sums[1]).item()


def _mp_fn(index):
    main()


if __name__ == "__main__":
    _mp_fn(0)
