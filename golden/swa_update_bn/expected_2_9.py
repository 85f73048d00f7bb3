import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


def blocks(n):
    y = torch.arange(n) % 4
    x = torch.randn(n, 1, 8, 8)
    for i, c in enumerate(y.tolist()):
        r, s = divmod(c, 2)
        x[i, 0, 4 * r : 4 * r + 4, 4 * s : 4 * s + 4] += 1
    return TensorDataset(x, y)


class SmallResNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.fc = nn.Linear(4 * width, 4)

    def forward(self, x):
        x = F.relu(self.bn1(self.stem(x)))
        x = F.relu(x + self.bn2(self.conv(x)))
        return self.fc(F.adaptive_avg_pool2d(x, 2).flatten(1))


def main():
    torch.manual_seed(27)
    torch_xla.manual_seed(27)
    device = torch_xla.device()
    loader = DataLoader(blocks(96), batch_size=12, shuffle=True)
    device_loader = pl.MpDeviceLoader(loader, device)
    test_loader = DataLoader(blocks(40), batch_size=20)
    test_device_loader = pl.MpDeviceLoader(test_loader, device)
    model = SmallResNet().to(device, memory_format=torch.channels_last)
    swa_model = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    swa_scheduler = SWALR(optimizer, swa_lr=0.005, anneal_epochs=1)
    swa_start = 1

    for epoch in range(3):
        for x, y in device_loader:
            x = x.to(memory_format=torch.channels_last)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            xm.optimizer_step(optimizer)
        if epoch >= swa_start:
            swa_model.update_parameters(model)
            swa_scheduler.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")

    update_bn(loader, swa_model, device=device)
    swa_model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in test_device_loader:
            correct += (swa_model(x).argmax(1) == y).sum()
        correct = int(correct)
    print(f"averaged model: {correct}/{len(test_loader.dataset)}")
    xm.save(swa_model.module.state_dict(), "swa.pt")


if __name__ == "__main__":
    main()
