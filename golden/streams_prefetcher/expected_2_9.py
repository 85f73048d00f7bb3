import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm


class DataPrefetcher:
    """Copies the next batch on a side stream while the current one is used."""

    def __init__(self, loader, mean, std):
        self.loader = iter(loader)
        device = torch_xla.device()
        self.mean = torch.tensor(mean).to(device).view(1, 3, 1, 1)
        self.std = torch.tensor(std).to(device).view(1, 3, 1, 1)
        self.preload()

    def preload(self):
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            self.next_input = None
            self.next_target = None
            return
        device = torch_xla.device()
        self.next_input = self.next_input.to(device, non_blocking=True)
        self.next_target = self.next_target.to(device, non_blocking=True)
        self.next_input = self.next_input.float().sub_(self.mean).div_(self.std)

    def next(self):
        input, target = self.next_input, self.next_target
        self.preload()
        return input, target


def train(loader, model, criterion, optimizer, epoch, print_freq=4):
    model.train()
    prefetcher = DataPrefetcher(loader, [120.0, 118.0, 110.0], [60.0, 60.0, 60.0])
    images, target = prefetcher.next()
    i = 0
    while images is not None:
        output = model(images)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync()
        if i % print_freq == 0:
            torch_xla.sync(wait=True)
            print(f"[{epoch}][{i}/{len(loader)}] loss {loss.item():.4f}")
        images, target = prefetcher.next()
        i += 1


def main():
    torch.manual_seed(0)
    torch_xla.manual_seed(0)
    images = torch.randint(0, 256, (64, 3, 16, 16), dtype=torch.uint8)
    labels = (images.float().mean((1, 2, 3)) > 127.5).long()
    loader = DataLoader(
        TensorDataset(images, labels), batch_size=8, shuffle=True
    )
    device = torch_xla.device()
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 2)
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(2):
        train(loader, model, nn.CrossEntropyLoss().to(device), optimizer, epoch)


if __name__ == "__main__":
    main()
