import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.runtime as xr

import distributed as du
from data import build
from net import Net


def train_epoch(model, loader, sampler, criterion, optimizer, epoch, gpu):
    sampler.set_epoch(epoch)
    model.train()
    total = torch.zeros(1, device=torch_xla.device())
    for inputs, targets in pl.MpDeviceLoader(loader, torch_xla.device()):
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        xm.optimizer_step(optimizer)
        total += loss.detach()
    return du.mean(total / len(loader)).item()


@torch.no_grad()
def validate(model, loader, gpu):
    model.eval()
    device = torch_xla.device()
    correct = torch.zeros(1).to(device)
    count = torch.zeros(1).to(device)
    for inputs, targets in pl.MpDeviceLoader(loader, device):
        correct += (model(inputs).argmax(1) == targets).sum()
        count += targets.numel()
    return (du.total(correct) / du.total(count)).item()


def main_worker(gpu, args):
    ngpus = xr.world_size()
    torch.manual_seed(args.seed)
    torch_xla.manual_seed(args.seed)

    device = torch_xla.device()
    model = Net().to(device)
    xm.broadcast_master_param(model)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    train_loader, val_loader, sampler = build(args.batch_size // ngpus)

    best = 0.0
    for epoch in range(args.epochs):
        loss = train_epoch(model, train_loader, sampler, criterion, optimizer, epoch, gpu)
        accuracy = validate(model, val_loader, gpu)
        scheduler.step()
        if du.is_main():
            print(f"epoch {epoch} loss {loss:.4f} accuracy {accuracy:.3f}")
        if accuracy >= best:
            best = accuracy
            du.save({"model": model.state_dict(), "best": best}, "best.pt")
