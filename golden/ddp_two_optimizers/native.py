# Generator and critic under DDP, two optimizers each for a part; clipping over both networks at once.
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

LATENT = 6
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", 1))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, LATENT))

    def forward(self, x):
        return self.body(x)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(LATENT, 1)

    def forward(self, z):
        return self.body(z).squeeze(1)


def update(optimizers):
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def main():
    dist.init_process_group(backend="nccl")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device(f"cuda:{local_rank}")
    torch.manual_seed(99)

    g = torch.Generator().manual_seed(8)
    x = torch.randn(160, 10, generator=g)
    data = TensorDataset(x, x[:, 0] * 2 - x[:, 3])
    sampler = DistributedSampler(data, num_replicas=WORLD_SIZE, rank=rank)
    loader = DataLoader(data, batch_size=10, sampler=sampler)

    encoder = DDP(Encoder().to(device), device_ids=[local_rank])
    head = DDP(Head().to(device), device_ids=[local_rank])
    optimizers = [
        torch.optim.Adam(encoder.parameters(), lr=1e-2),
        torch.optim.SGD(head.parameters(), lr=5e-2),
    ]
    params = list(encoder.parameters()) + list(head.parameters())

    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            loss = nn.functional.mse_loss(head(encoder(inputs)), targets)
            loss.backward()
            nn.utils.clip_grad_norm_(params, 1.0)
            update(optimizers)
        if rank == 0:
            print(f"epoch {epoch}: {loss.item():.5f}")

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
