"""What becomes of ``one_native`` for several replicas; ``--batch-size`` is that of each."""

import argparse

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.runtime as xr
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main(index, args):
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(48, 6, generator=generator)
    data = TensorDataset(features, features.sum(1, keepdim=True))
    torch.manual_seed(1)
    device = torch_xla.device()
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    sampler = DistributedSampler(data, xr.world_size(), xr.global_ordinal(), shuffle=False)
    loader = pl.MpDeviceLoader(DataLoader(data, batch_size=args.batch_size, sampler=sampler), device)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            xm.optimizer_step(optimizer)
    xm.save(model.state_dict(), "one.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    torch_xla.launch(main, args=(parser.parse_args(),))
