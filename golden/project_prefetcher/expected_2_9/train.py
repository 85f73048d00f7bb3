import argparse

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.amp import syncfree

from data import fast_collate, make_dataset
from meters import AverageMeter, accuracy
from net import SmallNet
from prefetch import DataPrefetcher


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("-b", "--batch-size", default=8, type=int)
    parser.add_argument("--epochs", default=2, type=int)
    parser.add_argument("--lr", default=0.05, type=float)
    parser.add_argument("--print-freq", default=2, type=int)
    return parser.parse_args()


def main():
    args = parse()
    torch.manual_seed(4)
    torch_xla.manual_seed(4)
    device = torch_xla.device()
    model = SmallNet().to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = syncfree.SGD(model.parameters(), args.lr, momentum=0.9)

    train_loader = torch.utils.data.DataLoader(
        make_dataset(32, seed=1),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=0,
        collate_fn=fast_collate,
    )
    val_loader = torch.utils.data.DataLoader(
        make_dataset(16, seed=2), batch_size=args.batch_size, collate_fn=fast_collate
    )

    for epoch in range(args.epochs):
        train(train_loader, model, criterion, optimizer, epoch, args)
        prec1 = validate(val_loader, model, criterion)
        print(f" * Prec@1 {prec1:.3f}")
    xm.save({"state_dict": model.state_dict()}, "checkpoint.pth.tar")


def train(train_loader, model, criterion, optimizer, epoch, args):
    losses = AverageMeter()
    model.train()

    prefetcher = DataPrefetcher(train_loader)
    input, target = prefetcher.next()
    i = 0
    while input is not None:
        i += 1
        with torch.autocast("xla", dtype=torch.bfloat16):
            output = model(input)
            loss = criterion(output, target)

        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync()

        if i % args.print_freq == 0:
            losses.update(loss.item(), input.size(0))
            torch_xla.sync(wait=True)
            print(f"Epoch [{epoch}][{i}/{len(train_loader)}] Loss {losses.avg:.1f}")

        input, target = prefetcher.next()


def validate(val_loader, model, criterion):
    top1 = AverageMeter()
    model.eval()

    prefetcher = DataPrefetcher(val_loader)
    input, target = prefetcher.next()
    while input is not None:
        with torch.no_grad():
            output = model(input)
            loss = criterion(output, target)
        torch_xla.sync()
        assert loss.item() >= 0
        top1.update(accuracy(output.data, target), input.size(0))
        input, target = prefetcher.next()
    return top1.avg


if __name__ == "__main__":
    main()
