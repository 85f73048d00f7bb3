import argparse
import contextlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


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
        self.local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(self.local_rank)
        torch.manual_seed(args.seed)
        fp16 = MixedPrecision(param_dtype=torch.float16, reduce_dtype=torch.float16)
        self.model = FullyShardedDataParallel(
            Regressor(),
            auto_wrap_policy=ModuleWrapPolicy({Residual}),
            mixed_precision=fp16,
            device_id=torch.cuda.current_device(),
            use_orig_params=True,
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9)
        self.scaler = ShardedGradScaler(init_scale=2.0**8)
        features = torch.randn(128, 8, generator=torch.Generator().manual_seed(3))
        data = TensorDataset(features, features.sum(dim=1, keepdim=True).sin())
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=args.batch_size, sampler=self.sampler, drop_last=True)

    def train_epoch(self, epoch: int) -> None:
        self.sampler.set_epoch(epoch)
        steps = self.args.accumulate
        for i, (x, y) in enumerate(self.loader):
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            boundary = (i + 1) % steps == 0
            with contextlib.nullcontext() if boundary else self.model.no_sync():
                loss = nn.functional.mse_loss(self.model(x).float(), y) / steps
                self.scaler.scale(loss).backward()
            if boundary:
                self.scaler.unscale_(self.optimizer)
                self.model.clip_grad_norm_(self.args.clip)
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()
        if dist.get_rank() == 0:
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
    dist.init_process_group("nccl")
    trainer = Trainer(args)
    for epoch in range(args.epochs):
        trainer.train_epoch(epoch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
