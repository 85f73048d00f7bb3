import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


def memory_info():
    # not every device tells: a CPU does not
    try:
        return xm.get_memory_info()
    except RuntimeError:
        return {"bytes_used": 0, "bytes_limit": 0, "peak_bytes_used": 0}


class PositionalMixer(nn.Module):
    def __init__(self, length=10, dim=8):
        super().__init__()
        self.proj = nn.Linear(1, dim)
        self.register_buffer("scale", torch.tensor(0.5))
        self.head = nn.Linear(dim, 1)
        self.length = length

    def forward(self, x):
        pos = torch.arange(self.length, dtype=torch.float32)
        if x.is_xla:
            pos = pos.to(x.device)
        h = torch.tanh(
            self.proj(x.unsqueeze(-1)) + self.scale * pos.view(1, -1, 1) / 10
        )
        return self.head(h.mean(1)).squeeze(1)


def move(obj, device):
    if device.type == "xla":
        if isinstance(obj, nn.Module):
            return obj.to(device)
        return obj.to(device, non_blocking=True)
    return obj.to(device)


def describe(device):
    if device.type == "xla" and device.index is not None:
        return f"{xm.xla_device_kind()}, {memory_info()['bytes_limit'] // 2**20} MiB"
    elif device == torch.device("cpu"):
        return "CPU"
    return str(device)


def main():
    torch.manual_seed(37)
    torch_xla.manual_seed(37)
    device = torch_xla.device()
    with open("device.txt", "w") as fh:
        fh.write(describe(device) + "\n")
    series = torch.rand(96, 10)
    target = (series * torch.linspace(0, 1, 10)).sum(1) / 5
    loader = DataLoader(
        TensorDataset(series, target),
        batch_size=8,
        shuffle=True,
    )
    loader = pl.MpDeviceLoader(loader, device)
    model = move(PositionalMixer(), device)
    if next(model.parameters()).is_xla:
        torch.set_float32_matmul_precision("highest")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    for epoch in range(2):
        total = 0.0
        for series, target in loader:
            series, target = move(series, device), move(target, device)
            loss = ((model(series) - target) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
            total += loss.detach()
        total = float(total)
        print(f"{epoch}: {total / len(loader):.5f}")


if __name__ == "__main__":
    main()
