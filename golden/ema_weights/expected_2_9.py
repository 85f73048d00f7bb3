import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


class ModelEma(nn.Module):
    """Exponential moving average of the weights of a model."""

    def __init__(self, model, decay=0.99, device=None):
        super().__init__()
        self.module = copy.deepcopy(model)
        self.module.eval()
        self.decay = decay
        self.device = device
        if self.device is not None:
            self.module.to(device=device)

    @torch.no_grad()
    def update(self, model, step):
        # the average follows quickly during the first steps
        decay = min(self.decay, (1 + step) / (10 + step))
        for ema_v, model_v in zip(
            self.module.state_dict().values(), model.state_dict().values()
        ):
            if self.device is not None:
                model_v = model_v.to(device=self.device)
            if ema_v.dtype.is_floating_point:
                ema_v.mul_(decay).add_(model_v, alpha=1 - decay)
            else:
                ema_v.copy_(model_v)


def get_loaders(batch_size):
    x = torch.randn(140, 8)
    y = torch.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    train = TensorDataset(x[:100], y[:100])
    val = TensorDataset(x[100:], y[100:])
    device = torch_xla.device()
    return (
        pl.MpDeviceLoader(
            DataLoader(train, batch_size=batch_size, shuffle=True), device
        ),
        pl.MpDeviceLoader(DataLoader(val, batch_size=batch_size), device),
    )


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    total = torch.zeros((), device=device)
    count = 0
    for x, y in loader:
        total += F.mse_loss(model(x), y, reduction="sum")
        count += len(x)
    return (total / count).item()


def main():
    torch.manual_seed(8)
    torch_xla.manual_seed(8)
    device = torch_xla.device()
    train_loader, val_loader = get_loaders(batch_size=10)
    model = nn.Sequential(
        nn.Linear(8, 32, bias=False), nn.BatchNorm1d(32), nn.SiLU(), nn.Linear(32, 1)
    )
    model = model.to(device)
    ema = ModelEma(model, decay=0.95, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    step = 0
    for epoch in range(3):
        model.train()
        for x, y in train_loader:
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
            ema.update(model, step)
            step += 1
        plain = evaluate(model, val_loader, device)
        averaged = evaluate(ema.module, val_loader, device)
        print(f"epoch {epoch}: val {plain:.4f}, val of the average {averaged:.4f}")


if __name__ == "__main__":
    main()
