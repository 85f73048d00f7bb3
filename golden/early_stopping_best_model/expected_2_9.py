import copy

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset, random_split


class EarlyStopping:
    def __init__(self, patience=2, min_delta=0.0, path="checkpoint.pt"):
        self.patience = patience
        self.min_delta = min_delta
        self.path = path
        self.best = None
        self.counter = 0
        self.stop = False

    def __call__(self, val_loss, model):
        if self.best is None or val_loss < self.best - self.min_delta:
            self.best = val_loss
            self.counter = 0
            xm.save(model.state_dict(), self.path)
        else:
            self.counter += 1
            print(f"EarlyStopping counter: {self.counter} out of {self.patience}")
            self.stop = self.counter >= self.patience


class Forecaster(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.cell = nn.LSTMCell(1, hidden)
        self.out = nn.Linear(hidden, 1)
        self.hidden = hidden

    def forward(self, series):
        h = series.new_zeros(series.size(0), self.hidden)
        c = torch.zeros_like(h)
        for t in range(series.size(1)):
            h, c = self.cell(series[:, t : t + 1], (h, c))
        return self.out(h)


def main():
    torch.manual_seed(52)
    torch_xla.manual_seed(52)
    DEVICE = torch_xla.device()
    t = torch.arange(8) + 12 * torch.rand(110, 1)
    series = torch.sin(0.6 * t)
    data = TensorDataset(series[:, :-1], series[:, -1:])
    train_set, val_set = random_split(data, [80, 30])
    train_loader = DataLoader(train_set, batch_size=10, shuffle=True)
    train_loader = pl.MpDeviceLoader(train_loader, DEVICE)
    val_loader = DataLoader(val_set, batch_size=10)
    val_loader = pl.MpDeviceLoader(val_loader, DEVICE)

    model = Forecaster().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    criterion = nn.MSELoss()
    stopper = EarlyStopping(patience=1, min_delta=0.1)
    train_losses, valid_losses = [], []

    for epoch in range(8):
        model.train()
        batch_losses = []
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            xm.optimizer_step(optimizer)

            def log_step(loss):
                batch_losses.append(loss.item())

            xm.add_step_closure(log_step, args=(loss,))
        train_losses.append(sum(batch_losses) / len(batch_losses))

        model.eval()
        val_loss = 0.0
        with torch.no_grad():
            for x, y in val_loader:
                val_loss += criterion(model(x), y) * len(x)
            val_loss = float(val_loss)
        valid_losses.append(val_loss / len(val_set))
        print(
            f"epoch {epoch} train {train_losses[-1]:.4f} valid {valid_losses[-1]:.4f}"
        )
        stopper(valid_losses[-1], model)
        if stopper.stop:
            print("Early stopping")
            break

    last = copy.deepcopy(model.state_dict())
    model.load_state_dict(torch.load("checkpoint.pt", map_location="cpu"))
    moved = sum((last[k] - v).abs().sum() for k, v in model.state_dict().items())
    print(f"weights moved by {moved.item():.3f} since the best epoch")


if __name__ == "__main__":
    main()
