"""A classifier as it is written for torchrun: one process a GPU."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.head = nn.Linear(4 * 6 * 6, 5)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).flatten(1))


def data():
    generator = torch.Generator().manual_seed(7)
    images = torch.randn(48, 1, 8, 8, generator=generator)
    return TensorDataset(images, images.sum((1, 2, 3)).long() % 5)


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    torch.manual_seed(0)
    model = DDP(Net().to(device), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = DistributedSampler(data(), shuffle=True)
    loader = DataLoader(data(), batch_size=8, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        seen = torch.tensor([len(loader)], device=device)
        dist.all_reduce(seen)
        if rank == 0:
            print("epoch", epoch, int(seen))
    if rank == 0:
        torch.save(model.module.state_dict(), "net.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
