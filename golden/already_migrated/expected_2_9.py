import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    torch_xla.manual_seed(0)
    device = torch_xla.device()
    x = torch.randn(96, 8)
    y = x.sum(1, keepdim=True)
    loader = DataLoader(
        TensorDataset(x, y), batch_size=12, shuffle=True, drop_last=True
    )
    device_loader = pl.MpDeviceLoader(loader, device)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(3):
        for x, y in device_loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
        xm.master_print(f"epoch {epoch} loss {loss.item():.4f}")
    xm.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
