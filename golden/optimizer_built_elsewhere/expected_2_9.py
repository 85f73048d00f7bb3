import argparse

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


def build(lr, freeze):
    """Model and optimizer; knows nothing of devices."""
    model = nn.Sequential(
        nn.Linear(6, 24),
        nn.ReLU(),
        nn.Linear(24, 24),
        nn.ReLU(),
        nn.Linear(24, 3),
    )
    if freeze:
        model[0].requires_grad_(False)
    trainable = filter(lambda p: p.requires_grad, model.parameters())
    optimizer = torch.optim.SGD(trainable, lr=lr, momentum=0.9, weight_decay=1e-4)
    return model, optimizer


def build_data(n=96):
    x = torch.randn(n, 6)
    y = (x[:, :3] + 0.3 * x[:, 3:]).argmax(1)
    return DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)


def train(model, optimizer, loader, device, epochs):
    torch.__future__.set_swap_module_params_on_conversion(True)
    # the optimizer was made long ago; CUDA does not mind
    model.to(device)
    torch.__future__.set_swap_module_params_on_conversion(False)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        total = 0.0
        device_loader = loader
        if device.type == "xla":
            device_loader = pl.MpDeviceLoader(loader, device)
        for x, y in device_loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
            total += loss.detach()
        total = float(total)
        print(f"epoch {epoch}: {total / len(loader):.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--freeze", action="store_true")
    ap.add_argument("--gpu", default="0", help="index of the card, or cpu")
    args = ap.parse_args()
    torch.manual_seed(12)
    torch_xla.manual_seed(12)
    device = torch.device("cpu") if args.gpu == "cpu" else torch_xla.device()
    model, optimizer = build(args.lr, args.freeze)
    train(model, optimizer, build_data(), device, epochs=3)
