"""A classifier that rank 0 evaluates every few steps; start it with  torchrun --nproc_per_node=N native.py"""

import math
import os
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


@dataclass
class Config:
    steps: int = 12
    accumulate: int = 2
    evaluate_every: int = 4
    lr: float = 1e-2
    rank: int = field(default_factory=lambda: int(os.environ.get("RANK", 0)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.outer = torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.outer(F.gelu(self.norm(self.inner(x))))


class Trainer:
    def __init__(self, config, model, device):
        self.config, self.device = config, device
        self.raw = model.to(device)
        self.model = DDP(self.raw)
        self.optimizer = torch.optim.AdamW(self.raw.parameters(), lr=config.lr)

    @property
    def is_main(self):
        return self.config.rank == 0

    @torch.no_grad()
    def evaluate(self, loader):
        if not self.is_main:
            return None
        self.raw.eval()
        correct = total = 0
        for x, y in loader:
            correct += (self.raw(x.to(self.device)).argmax(1).cpu() == y).sum().item()
            total += y.numel()
        self.raw.train()
        return correct / total

    def adjust(self, step):
        for group in self.optimizer.param_groups:
            group["lr"] = (
                self.config.lr
                * 0.5
                * (1 + math.cos(math.pi * step / self.config.steps))
            )

    def fit(self, loader, held):
        step = micro = epoch = 0
        while step < self.config.steps:
            loader.sampler.set_epoch(epoch)
            for x, y in loader:
                self.adjust(step)
                last = (micro + 1) % self.config.accumulate == 0
                with nullcontext() if last else self.model.no_sync():
                    loss = F.cross_entropy(
                        self.model(x.to(self.device)), y.to(self.device)
                    )
                    (loss / self.config.accumulate).backward()
                micro += 1
                if not last:
                    continue
                torch.nn.utils.clip_grad_norm_(self.raw.parameters(), 1.0)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
                step += 1
                if step % self.config.evaluate_every == 0:
                    accuracy = self.evaluate(held)
                    if self.is_main:
                        print(f"step {step} accuracy {accuracy:.3f}")
                        torch.save(
                            {"model": self.raw.state_dict(), "step": step},
                            f"step{step}.pt",
                        )
                    dist.barrier()
                if step >= self.config.steps:
                    break
            epoch += 1


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    torch.manual_seed(0)
    x = torch.randn(128, 8)
    y = x[:, :4].argmax(1)
    train, held = TensorDataset(x[:96], y[:96]), TensorDataset(x[96:], y[96:])
    loader = DataLoader(
        train, batch_size=8, sampler=DistributedSampler(train), drop_last=True
    )
    trainer = Trainer(Config(), Net(), torch.device("cuda", local_rank))
    trainer.fit(loader, DataLoader(held, batch_size=16))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
