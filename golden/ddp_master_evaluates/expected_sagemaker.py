"""A classifier that rank 0 evaluates every few steps; start it with  torchrun --nproc_per_node=N native.py"""

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


@dataclass
class Config:
    steps: int = 12
    accumulate: int = 2
    evaluate_every: int = 4
    lr: float = 1e-2
    rank: int = field(default_factory=lambda: xm.get_ordinal())


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
        self.model = self.raw
        xm.collective_broadcast([*self.model.parameters(), *self.model.buffers()])
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

            def log_step(y, x_argmax):
                nonlocal correct
                correct += (x_argmax.cpu() == y).sum().item()

            xm.add_step_closure(
                log_step, args=(y, self.raw(x.to(self.device)).argmax(1))
            )
            xm.mark_step()
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
            for x, y in pl.MpDeviceLoader(loader, self.device):
                self.adjust(step)
                last = (micro + 1) % self.config.accumulate == 0
                loss = F.cross_entropy(self.model(x), y)
                (loss / self.config.accumulate).backward()
                micro += 1
                if not last:
                    continue
                xm.all_reduce(
                    "sum",
                    xm._fetch_gradients(self.optimizer),
                    scale=1.0 / xm.xrt_world_size(),
                )
                torch.nn.utils.clip_grad_norm_(self.raw.parameters(), 1.0)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
                step += 1
                if step % self.config.evaluate_every == 0:
                    xm.mark_step()
                    accuracy = self.evaluate(held)
                    if self.is_main:
                        print(f"step {step} accuracy {accuracy:.3f}")
                    xm.save(
                        {"model": self.raw.state_dict(), "step": step},
                        f"step{step}.pt",
                    )
                    xm.rendezvous("fit")
                if step >= self.config.steps:
                    xm.mark_step()
                    break
            epoch += 1


def main():
    torch.manual_seed(0)
    xm.set_rng_state(0)
    x = torch.randn(128, 8)
    y = x[:, :4].argmax(1)
    train, held = TensorDataset(x[:96], y[:96]), TensorDataset(x[96:], y[96:])
    loader = DataLoader(
        train,
        batch_size=8,
        sampler=DistributedSampler(
            train, num_replicas=xm.xrt_world_size(), rank=xm.get_ordinal()
        ),
        drop_last=True,
    )
    trainer = Trainer(Config(), Net(), xm.xla_device())
    trainer.fit(loader, DataLoader(held, batch_size=16))


def _mp_fn(index):
    main()


if __name__ == "__main__":
    _mp_fn(0)
