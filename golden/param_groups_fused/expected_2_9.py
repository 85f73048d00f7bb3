import argparse

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(10, 24)
        self.body = nn.Linear(24, 24)
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, 4)
        self.frozen = nn.Linear(24, 24)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        x = torch.tanh(self.stem(x))
        x = self.norm(torch.tanh(self.body(x)) + 0.1 * self.frozen(x))
        return self.head(x)


def configure_optimizers(model, args, device_type):
    decay, no_decay = [], []
    for name, param in model.named_parameters():
        if not param.requires_grad or name.startswith("head."):
            continue
        (decay if param.ndim >= 2 else no_decay).append(param)
    groups = [
        {"params": decay, "weight_decay": args.wd},
        {"params": no_decay, "weight_decay": 0.0, "lr": args.lr * 0.5},
    ]
    extra = dict() if device_type == "xla" else dict()
    body = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), eps=1e-6, **extra)
    head = torch.optim.SGD(
        model.head.parameters(), args.lr * 10, momentum=0.9, nesterov=True
    )
    return [body, head]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", default=3e-3, type=float)
    parser.add_argument("--wd", default=0.05, type=float)
    parser.add_argument("--epochs", default=3, type=int)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    args = parser.parse_args()
    if args.device.startswith("cuda"):
        args.device = "xla"

    torch.manual_seed(30)
    torch_xla.manual_seed(30)
    device = torch.device(args.device)
    x = torch.randn(96, 10)
    y = (x[:, :2] > 0).long() @ torch.tensor([1, 2])
    loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
    if device.type == "xla":
        loader = pl.MpDeviceLoader(loader, device)
    model = Backbone().to(device)
    optimizers = configure_optimizers(model, args, device.type)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(args.epochs):
        epoch_loss = torch.tensor(0.0, device=device)
        for xb, yb in loader:
            for opt in optimizers:
                opt.zero_grad(set_to_none=True)
            loss = criterion(model(xb), yb)
            loss.backward()
            for opt in optimizers:
                xm.optimizer_step(opt)
            epoch_loss += loss.detach()
        print(f"epoch {epoch} loss {(epoch_loss / len(loader)).item():.4f}")


if __name__ == "__main__":
    main()
