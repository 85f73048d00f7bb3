import argparse

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.amp import autocast
from torch.utils.data import DataLoader, TensorDataset
from torch_xla.amp import GradScaler, syncfree


class Runner:
    def __init__(self, opts):
        self.opts = opts
        self.device = xm.xla_device()
        self.amp = not opts.no_amp
        self.dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[opts.dtype]
        self.net = nn.Sequential(nn.Linear(9, 40), nn.SiLU(), nn.Linear(40, 1))
        self.net.to(self.device)
        self.optimizer = syncfree.AdamW(self.net.parameters(), lr=opts.lr)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.97)
        self.scaler = GradScaler(
            init_scale=2.0**12,
            growth_interval=100,
            enabled=self.amp and self.dtype == torch.float16,
        )

    def backward(self, loss, update):
        self.scaler.scale(loss).backward()
        if not update:
            return
        xm.reduce_gradients(self.optimizer)
        if self.opts.clip > 0:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.net.parameters(), self.opts.clip)
        before = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        skipped = before > self.scaler.get_scale()
        self.optimizer.zero_grad(set_to_none=True)
        if not skipped:
            self.scheduler.step()

    def epoch(self, loader):
        self.net.train()
        losses = []
        for i, (x, y) in enumerate(loader, start=1):
            with autocast("xla", dtype=self.dtype, enabled=self.amp):
                loss = nn.functional.huber_loss(self.net(x), y) / self.opts.accum
            self.backward(loss, update=i % self.opts.accum == 0 or i == len(loader))

            def log_step(loss):
                losses.append(loss.item() * self.opts.accum)

            xm.add_step_closure(log_step, args=(loss,))
        return sum(losses) / len(losses)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--clip", type=float, default=1.0, help="0 switches clipping off")
    p.add_argument("--accum", type=int, default=2)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--dtype", default="fp16", choices=["fp16", "bf16"])
    p.add_argument("--no-amp", action="store_true")
    opts = p.parse_args()

    torch.manual_seed(81)
    xm.set_rng_state(81)
    x = torch.randn(80, 9)
    y = x[:, :3].prod(1, keepdim=True) + x[:, 3:4]
    loader = DataLoader(
        TensorDataset(x, y), batch_size=8, shuffle=True
    )
    loader = pl.MpDeviceLoader(loader, xm.xla_device())
    runner = Runner(opts)
    for n in range(3):
        loss = runner.epoch(loader)
        print(f"epoch {n}: {loss:.4f} lr {runner.scheduler.get_last_lr()[0]:.6f}")


if __name__ == "__main__":
    main()
