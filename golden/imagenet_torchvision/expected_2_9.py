import argparse
import os
import shutil
import time
import warnings

import torch
import torch.nn as nn
import torch.optim
import torch.utils.data
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torchvision.datasets as datasets
import torchvision.models as models
import torchvision.transforms as transforms

parser = argparse.ArgumentParser(description="Image folder training")
parser.add_argument("data", metavar="DIR")
parser.add_argument("-a", "--arch", default="resnet18")
parser.add_argument("-j", "--workers", default=4, type=int)
parser.add_argument("--epochs", default=90, type=int)
parser.add_argument("-b", "--batch-size", default=256, type=int)
parser.add_argument("--lr", default=0.1, type=float)
parser.add_argument("-p", "--print-freq", default=10, type=int)
parser.add_argument("--resume", default="", type=str, metavar="PATH")
parser.add_argument("-e", "--evaluate", dest="evaluate", action="store_true")
parser.add_argument("--seed", default=None, type=int)
parser.add_argument("--gpu", default=None, type=int, help="GPU id to use.")
best_acc1 = 0


def main():
    global best_acc1
    args = parser.parse_args()
    if args.seed is not None:
        torch.manual_seed(args.seed)
        torch_xla.manual_seed(args.seed)
        warnings.warn("seeded training turns on the deterministic setting")
    if args.gpu is not None:
        print("Use GPU: {} for training".format(args.gpu))

    model = models.__dict__[args.arch]()
    device = torch_xla.device()
    model = model.to(device)

    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    start_epoch = 0
    if args.resume and os.path.isfile(args.resume):
        checkpoint = torch.load(args.resume, map_location="cpu")
        start_epoch = checkpoint["epoch"]
        best_acc1 = checkpoint["best_acc1"]
        best_acc1 = best_acc1.to(device)
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])

    tf = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    train_loader = torch.utils.data.DataLoader(
        datasets.ImageFolder(os.path.join(args.data, "train"), tf),
        batch_size=args.batch_size, shuffle=True, num_workers=args.workers)
    train_loader = pl.MpDeviceLoader(train_loader, device)
    val_loader = torch.utils.data.DataLoader(
        datasets.ImageFolder(os.path.join(args.data, "val"), tf),
        batch_size=args.batch_size, shuffle=False, num_workers=args.workers)

    if args.evaluate:
        validate(val_loader, model, criterion, args)
        return
    for epoch in range(start_epoch, args.epochs):
        train(train_loader, model, criterion, optimizer, epoch, args)
        acc1 = validate(val_loader, model, criterion, args)
        is_best = acc1 > best_acc1
        best_acc1 = max(acc1, best_acc1)
        state = {"epoch": epoch + 1, "arch": args.arch, "state_dict": model.state_dict(),
                 "best_acc1": best_acc1, "optimizer": optimizer.state_dict()}
        xm.save(state, "checkpoint.pth.tar")
        if is_best:
            shutil.copyfile("checkpoint.pth.tar", "model_best.pth.tar")


def train(train_loader, model, criterion, optimizer, epoch, args):
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(train_loader):
        output = model(images)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        if i % args.print_freq == 0:

            def log_step(i, end, loss):
                print(f"[{epoch}][{i}] time {time.time() - end:.3f} loss {loss.item():.4e}")

            xm.add_step_closure(log_step, args=(i, end, loss))
        end = time.time()


def validate(val_loader, model, criterion, args):
    model.eval()
    hits = torch.zeros(1).to(torch_xla.device())
    with torch.no_grad():
        for images, target in pl.MpDeviceLoader(val_loader, torch_xla.device()):
            hits += (model(images).argmax(1) == target).float().sum()
    return hits * 100.0 / len(val_loader.dataset)


if __name__ == "__main__":
    main()
