"""Train a small convolutional net on synthetic images: apex's amp, DDP, SyncBatchNorm and SGD."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.runtime as xr
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from torch_xla.amp import syncfree


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(x.mean(dim=(2, 3)))


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", default=xr.local_ordinal(), type=int)
    parser.add_argument("--opt-level", type=str, default="O1")
    parser.add_argument("--keep-batchnorm-fp32", type=str, default=None)
    parser.add_argument("--loss-scale", type=str, default=None)
    parser.add_argument("--sync_bn", action="store_true")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05)
    return parser.parse_args()


def main():
    args = parse()
    torch.manual_seed(11)
    torch_xla.manual_seed(11)

    model = Net()
    device = torch_xla.device()
    model = model.to(device)
    optimizer = syncfree.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    xm.broadcast_master_param(model)
    criterion = nn.CrossEntropyLoss().to(device)

    data = TensorDataset(torch.randn(128, 3, 8, 8), torch.randint(10, (128,)))
    sampler = DistributedSampler(data, num_replicas=xr.world_size(), rank=xr.global_ordinal())
    loader = DataLoader(data, batch_size=16, sampler=sampler, num_workers=0)
    loader = pl.MpDeviceLoader(loader, device)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for i, (images, target) in enumerate(loader):
            with torch.autocast("xla", dtype=torch.bfloat16, enabled=args.opt_level != "O0"):
                output = model(images)
                loss = criterion(output, target)

            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)

            if i % 2 == 0:

                def log_step(epoch, i, loss):
                    if xm.is_master_ordinal():
                        print(f"epoch {epoch} step {i}: {loss.item():.4f}")

                xm.add_step_closure(log_step, args=(epoch, i, loss))
    xm.save({"model": model.state_dict()}, "apex_ddp.pt")


def _mp_fn(index):
    main()


if __name__ == "__main__":
    torch_xla.launch(_mp_fn)
