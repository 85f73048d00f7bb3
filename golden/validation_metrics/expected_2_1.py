import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


class AverageMeter:
    """Keeps the running average of a value."""

    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.sum = 0.0
        self.count = 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        res = []
        for k in topk:
            correct_k = correct[:k].reshape(-1).float().sum(0)
            res.append(correct_k.mul_(100.0 / target.size(0)))
        return res


def train(loader, model, criterion, optimizer, epoch):
    losses = AverageMeter("Loss")
    top1 = AverageMeter("Acc@1")
    model.train()
    for i, (images, target) in enumerate(loader):
        output = model(images)
        loss = criterion(output, target)
        acc1, _ = accuracy(output, target, topk=(1, 3))

        def log_step(loss, images, acc1):
            losses.update(loss.item(), images.size(0))
            top1.update(acc1.item(), images.size(0))

        xm.add_step_closure(log_step, args=(loss, images, acc1))
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        if i % 5 == 0:

            def log_step_2(i):
                print(
                    f"Epoch [{epoch}][{i}/{len(loader)}] loss {losses.avg:.4f} acc {top1.avg:.2f}"
                )

            xm.add_step_closure(log_step_2, args=(i,))


def validate(loader, model, criterion):
    losses = AverageMeter("Loss")
    top1 = AverageMeter("Acc@1")
    top3 = AverageMeter("Acc@3")
    model.eval()
    confusion = torch.zeros(6, 6, dtype=torch.long)
    with torch.no_grad():
        for images, target in loader:
            output = model(images)
            loss = criterion(output, target)
            acc1, acc3 = accuracy(output, target, topk=(1, 3))

            def log_step(loss, images, acc1, acc3, target, output_argmax):
                losses.update(loss.item(), images.size(0))
                top1.update(acc1.item(), images.size(0))
                top3.update(acc3.item(), images.size(0))
                for t, p in zip(target.cpu().tolist(), output_argmax.cpu().tolist()):
                    confusion[t, p] += 1

            xm.add_step_closure(
                log_step, args=(loss, images, acc1, acc3, target, output.argmax(1))
            )
    print(f" * Acc@1 {top1.avg:.3f} Acc@3 {top3.avg:.3f} Loss {losses.avg:.4f}")
    print(" * diagonal", confusion.diag().tolist())
    return top1.avg


def main():
    torch.manual_seed(5)
    xm.set_rng_state(5)
    labels = torch.arange(150) % 6
    images = 0.5 * torch.randn(150, 3, 8, 8)
    images[:, 0].add_(labels.view(-1, 1, 1) * 0.4)
    images[:, 1, :, 4:].sub_(labels.view(-1, 1, 1) % 3 * 0.5)
    train_set, val_set = random_split(TensorDataset(images, labels), [112, 38])

    device = xm.xla_device()
    train_loader = DataLoader(train_set, batch_size=16, shuffle=True)
    train_loader = pl.MpDeviceLoader(train_loader, device)
    val_loader = DataLoader(val_set, batch_size=16, shuffle=False)
    val_loader = pl.MpDeviceLoader(val_loader, device)

    model = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1, bias=False),
        nn.BatchNorm2d(12),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(48, 6),
    ).to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(
        model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4
    )

    best = 0.0
    for epoch in range(3):
        train(train_loader, model, criterion, optimizer, epoch)
        acc = validate(val_loader, model, criterion)
        best = max(best, acc)
    print("best accuracy %.2f" % best)


if __name__ == "__main__":
    main()
