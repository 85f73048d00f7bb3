import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--use-cuda", dest="cuda", action="store_true", default=None)
    p.add_argument("--no-use-cuda", dest="cuda", action="store_false")
    p.add_argument("--batch", type=int, default=10)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--test-every", type=int, default=5)
    opts = p.parse_args()
    if opts.cuda is None:
        opts.cuda = True
    return opts


def cycle(loader):
    while True:
        yield from loader


def make_sets():
    x = torch.rand(130, 5)
    y = ((x - 0.5) ** 2).sum(1, keepdim=True)
    return TensorDataset(x[:90], y[:90]), TensorDataset(x[90:], y[90:])


def test(net, loader, dev):
    net.eval()
    errors = []
    with torch.no_grad():
        for x, y in loader:
            errors.append(F.l1_loss(net(x), y, reduction="none"))
    net.train()
    return torch.cat(errors).mean().item()


def main():
    opts = parse()
    torch.manual_seed(91)
    torch_xla.manual_seed(91)
    if opts.cuda:
        dev = torch_xla.device()
        kwargs = dict(num_workers=0, pin_memory=True)
    else:
        dev = torch.device("cpu")
        kwargs = {}
    train_set, test_set = make_sets()
    train_loader = DataLoader(
        train_set, batch_size=opts.batch, shuffle=True, drop_last=True, **kwargs
    )
    test_loader = DataLoader(test_set, batch_size=20, **kwargs)
    if dev.type == "xla":
        test_loader = pl.MpDeviceLoader(test_loader, dev)

    net = nn.Sequential(nn.Linear(5, 30), nn.Tanh(), nn.Linear(30, 1)).to(dev)
    optimizer = torch.optim.NAdam(net.parameters(), lr=5e-3)
    batches = cycle(train_loader)
    step = 0
    while step < opts.steps:
        x, y = next(batches)
        x, y = x.to(dev), y.to(dev)
        loss = F.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync()
        step += 1
        if step % opts.test_every == 0:
            print(
                f"{step:4d} train {loss.item():.5f} test {test(net, test_loader, dev):.5f}"
            )


if __name__ == "__main__":
    main()
