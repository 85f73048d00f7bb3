"""What becomes of ``ddp_native``: one process a device of XLA."""

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.runtime as xr
from torch import nn
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


def main(index):
    device = torch_xla.device()
    torch.manual_seed(0)
    model = Net().to(device)
    xm.broadcast_master_param(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = DistributedSampler(
        data(), num_replicas=xr.world_size(), rank=xr.global_ordinal(), shuffle=True
    )
    loader = DataLoader(data(), batch_size=8, sampler=sampler)
    device_loader = pl.MpDeviceLoader(loader, device)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in device_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            xm.reduce_gradients(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        seen = xm.mesh_reduce("seen", len(loader), sum)
        if xr.global_ordinal() == 0:
            print("epoch", epoch, seen)
    xm.save(model.state_dict(), "net.pt")
    xm.rendezvous("saved")


if __name__ == "__main__":
    torch_xla.launch(main)
