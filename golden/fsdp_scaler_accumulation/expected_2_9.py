import argparse
import contextlib
import functools

import torch
import torch_xla
import torch_xla.distributed.parallel_loader as pl
import torch_xla.runtime as xr
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP
from torch_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 2 * width), nn.Tanh(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class Regressor(nn.Module):
    def __init__(self, width: int = 16, depth: int = 2) -> None:
        super().__init__()
        self.stem = nn.Linear(8, width)
        self.body = nn.Sequential(*(Residual(width) for _ in range(depth)))
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.stem(x)))


class Trainer:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.local_rank = xr.local_ordinal()
        torch.manual_seed(args.seed)
        torch_xla.manual_seed(args.seed)
        self.model = FSDP(
            Regressor(),
            auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Residual}),
            compute_dtype=torch.bfloat16,
            buffer_dtype=torch.float32,
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9)
        features = torch.randn(128, 8, generator=torch.Generator().manual_seed(3))
        data = TensorDataset(features, features.sum(dim=1, keepdim=True).sin())
        self.sampler = DistributedSampler(data, num_replicas=xr.world_size(), rank=xr.global_ordinal())
        self.loader = DataLoader(data, batch_size=args.batch_size, sampler=self.sampler, drop_last=True)
        self.loader = pl.MpDeviceLoader(self.loader, torch_xla.device())

    def train_epoch(self, epoch: int) -> None:
        self.sampler.set_epoch(epoch)
        steps = self.args.accumulate
        for i, (x, y) in enumerate(self.loader):
            boundary = (i + 1) % steps == 0
            with contextlib.nullcontext() if boundary else self.model.no_sync():
                loss = nn.functional.mse_loss(self.model(x).float(), y) / steps
                loss.backward()
            if boundary:
                self.model.clip_grad_norm_(self.args.clip)
                self.optimizer.step()
                self.optimizer.zero_grad()
        if xr.global_ordinal() == 0:
            print(f"epoch {epoch} done")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--clip", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    trainer = Trainer(args)
    for epoch in range(args.epochs):
        trainer.train_epoch(epoch)


def _mp_fn(index):
    main()


if __name__ == "__main__":
    torch_xla.launch(_mp_fn)
