# Generator and critic under DDP, two optimizers each for a part; clipping over both networks at once.

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

LATENT = 6


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
    rank, local_rank = xm.get_ordinal(), xm.get_local_ordinal()
    device = xm.xla_device()
    torch.manual_seed(99)
    xm.set_rng_state(99)

    g = torch.Generator().manual_seed(8)
    x = torch.randn(160, 10, generator=g)
    data = TensorDataset(x, x[:, 0] * 2 - x[:, 3])
    sampler = DistributedSampler(data, num_replicas=WORLD_SIZE, rank=rank)
    loader = DataLoader(data, batch_size=10, sampler=sampler)
    device_loader = pl.MpDeviceLoader(loader, device)

    encoder = Encoder().to(device)
    xm.collective_broadcast([*encoder.parameters(), *encoder.buffers()])
    head = Head().to(device)
    xm.collective_broadcast([*head.parameters(), *head.buffers()])
    optimizers = [
        torch.optim.Adam(encoder.parameters(), lr=1e-2),
        torch.optim.SGD(head.parameters(), lr=5e-2),
    ]
    params = list(encoder.parameters()) + list(head.parameters())

    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for inputs, targets in device_loader:
            loss = nn.functional.mse_loss(head(encoder(inputs)), targets)
            loss.backward()
            for optimizer in optimizers:
                xm.all_reduce(
                    "sum",
                    xm._fetch_gradients(optimizer),
                    scale=1.0 / xm.xrt_world_size(),
                )
            nn.utils.clip_grad_norm_(params, 1.0)
            update(optimizers)
        loss_value = loss.item()
        if rank == 0:
            print(f"epoch {epoch}: {loss_value:.5f}")


def _mp_fn(index):
    global WORLD_SIZE
    WORLD_SIZE = xm.xrt_world_size()

    main()


if __name__ == "__main__":
    _mp_fn(0)
