import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch_xla.amp import GradScaler, syncfree

SEED = 7
EPOCHS = 3
BATCH_SIZE = 16
MAX_NORM = 1.0

torch.manual_seed(SEED)
xm.set_rng_state(SEED)
device = xm.xla_device()


def build_data(n=160, dim=24, classes=5):
    centers = torch.randn(classes, dim)
    labels = torch.arange(n) % classes
    points = centers[labels] + 0.5 * torch.randn(n, dim)
    return TensorDataset(points, labels)


class Mlp(nn.Module):
    def __init__(self, dim=24, hidden=48, classes=5):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim, hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, classes),
        )

    def forward(self, x):
        return self.net(x)


def train_one_epoch(model, loader, criterion, optimizer, scaler):
    model.train()
    total, seen = 0.0, 0
    for inputs, labels in loader:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("xla", dtype=torch.bfloat16):
            outputs = model(inputs)
            loss = criterion(outputs, labels)
        scaler.scale(loss).backward()
        xm.reduce_gradients(optimizer)
        # gradients must be unscaled before they are clipped
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        scaler.step(optimizer)
        scaler.update()
        total += loss.detach().float() * inputs.size(0)
        seen += inputs.size(0)
    total = float(total)
    return total / seen


def main():
    loader = DataLoader(
        build_data(),
        batch_size=BATCH_SIZE,
        shuffle=True,
        drop_last=True,
    )
    loader = pl.MpDeviceLoader(loader, device)
    model = Mlp().to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = syncfree.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS)
    scaler = GradScaler()

    for epoch in range(EPOCHS):
        loss = train_one_epoch(model, loader, criterion, optimizer, scaler)
        scheduler.step()
        print(f"epoch {epoch}: loss {loss:.4f} lr {scheduler.get_last_lr()[0]:.5f}")


if __name__ == "__main__":
    main()
