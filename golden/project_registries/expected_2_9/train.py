import argparse

import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

from build import build_loader, build_model, build_optimizer


def train(model, loader, optimizer, args):
    model.train()
    for x, y in pl.MpDeviceLoader(loader, torch_xla.device()):
        loss = F.cross_entropy(model(x), y, label_smoothing=args.smoothing)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        xm.optimizer_step(optimizer)
    return loss


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    correct = total = 0
    for x, y in pl.MpDeviceLoader(loader, torch_xla.device()):
        correct += (model(x).argmax(1) == y).sum()
        total += y.size(0)
    correct = int(correct)
    return correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="convnet")
    parser.add_argument("--opt", default="SGD", help="a class of torch.optim")
    parser.add_argument("--data", default="blobs")
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--smoothing", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch_xla.manual_seed(0)
    model = build_model(args.model, num_classes=4).to(torch_xla.device())
    optimizer = build_optimizer(args, model)
    train_loader = build_loader(args.data, train=True)
    val_loader = build_loader(args.data, train=False)

    for epoch in range(args.epochs):
        loss = train(model, train_loader, optimizer, args)
        print(f"epoch {epoch}: loss {loss.item():.4f}, accuracy {accuracy(model, val_loader):.3f}")
    xm.save(model.state_dict(), f"{args.model}.pt")


if __name__ == "__main__":
    main()
