import torch
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

import distributed as du
from data import build
from net import Net


def train_epoch(model, loader, sampler, criterion, optimizer, epoch, gpu):
    sampler.set_epoch(epoch)
    model.train()
    total = torch.zeros(1, device=f"cuda:{gpu}")
    for inputs, targets in loader:
        inputs = inputs.cuda(gpu, non_blocking=True)
        targets = targets.cuda(gpu, non_blocking=True)
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return du.mean(total / len(loader)).item()


@torch.no_grad()
def validate(model, loader, gpu):
    model.eval()
    correct = torch.zeros(1).cuda(gpu)
    count = torch.zeros(1).cuda(gpu)
    for inputs, targets in loader:
        inputs = inputs.cuda(gpu, non_blocking=True)
        targets = targets.cuda(gpu, non_blocking=True)
        correct += (model(inputs).argmax(1) == targets).sum()
        count += targets.numel()
    return (du.total(correct) / du.total(count)).item()


def main_worker(gpu, ngpus, args):
    du.setup(gpu, ngpus)
    torch.cuda.set_device(gpu)
    torch.manual_seed(args.seed)

    model = DDP(Net().cuda(gpu), device_ids=[gpu])
    criterion = nn.CrossEntropyLoss().cuda(gpu)
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
            du.save({"model": model.module.state_dict(), "best": best}, "best.pt")
    du.cleanup()
