import argparse

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset
from torch_xla.amp import GradScaler, autocast, syncfree

cli = argparse.ArgumentParser()
cli.add_argument("--amp", action="store_true")
cli.add_argument("--epochs", type=int, default=2)
cfg = cli.parse_args()

torch.manual_seed(41)
xm.set_rng_state(41)
x = torch.randn(96, 14)
y = x.abs().argmax(1) % 3
device = xm.xla_device()
feed = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
feed = pl.MpDeviceLoader(feed, device)

net = nn.Sequential(nn.Linear(14, 64), nn.ReLU(), nn.Linear(64, 3)).to(device)
opt = syncfree.SGD(net.parameters(), lr=0.2)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.98)
crit = nn.CrossEntropyLoss()
scaler = GradScaler() if cfg.amp else None

for epoch in range(cfg.epochs):
    for k, (xs, ys) in enumerate(feed):
        opt.zero_grad()
        if cfg.amp:
            with autocast():
                loss = crit(net(xs), ys)
            scaler.scale(loss).backward()
            xm.all_reduce(
                "sum", xm._fetch_gradients(opt), scale=1.0 / xm.xrt_world_size()
            )
            scaler.step(opt)
            scaler.update()
        else:
            loss = crit(net(xs), ys)
            loss.backward()
            xm.optimizer_step(opt)
        sched.step()
        if k % 4 == 0:
            lr = opt.param_groups[0]["lr"]
            scale = scaler.get_scale() if scaler is not None else 1.0

            def log_step(epoch, k, loss, lr, scale):
                print(f"{epoch}/{k} loss {loss.item():.4f} lr {lr:.4f} amp {scale > 1}")

            xm.add_step_closure(log_step, args=(epoch, k, loss, lr, scale))

state = {"net": net.state_dict(), "epoch": epoch}
if scaler is not None:
    state["scaler"] = scaler.state_dict()
xm.save(state, "net.pt")
