import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

cli = argparse.ArgumentParser()
cli.add_argument("--amp", action="store_true")
cli.add_argument("--epochs", type=int, default=2)
cfg = cli.parse_args()

torch.manual_seed(41)
x = torch.randn(96, 14)
y = x.abs().argmax(1) % 3
feed = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)

net = nn.Sequential(nn.Linear(14, 64), nn.ReLU(), nn.Linear(64, 3)).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.2)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.98)
crit = nn.CrossEntropyLoss()
scaler = torch.cuda.amp.GradScaler() if cfg.amp else None

for epoch in range(cfg.epochs):
    for k, (xs, ys) in enumerate(feed):
        opt.zero_grad()
        if cfg.amp:
            with torch.cuda.amp.autocast():
                loss = crit(net(xs.cuda()), ys.cuda())
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
        else:
            loss = crit(net(xs.cuda()), ys.cuda())
            loss.backward()
            opt.step()
        sched.step()
        if k % 4 == 0:
            lr = opt.param_groups[0]["lr"]
            scale = scaler.get_scale() if scaler is not None else 1.0
            print(f"{epoch}/{k} loss {loss.item():.4f} lr {lr:.4f} amp {scale > 1}")

state = {"net": net.state_dict(), "epoch": epoch}
if scaler is not None:
    state["scaler"] = scaler.state_dict()
torch.save(state, "net.pt")
