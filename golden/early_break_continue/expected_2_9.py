import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

torch.manual_seed(77)
torch_xla.manual_seed(77)
dev = torch_xla.device()

MAX_STEPS_PER_EPOCH = 9
LOSS_CAP = 50.0

x = torch.randn(120, 7)
y = x.cumsum(1)[:, -1:].abs()
x[33] = float("nan")  # one broken record, as in the real logs
feed = DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True)
feed = pl.MpDeviceLoader(feed, dev)

net = nn.Sequential(nn.Linear(7, 24), nn.Tanh(), nn.Linear(24, 1)).to(dev)
opt = torch.optim.Adam(net.parameters(), lr=0.01)
crit = nn.MSELoss()

skipped = 0
stale = 0
best = float("inf")
for epoch in range(6):
    total, count = 0.0, 0
    for k, (u, v) in enumerate(feed):
        if k >= MAX_STEPS_PER_EPOCH:
            break
        cost = crit(net(u), v)
        if torch.isnan(cost) or cost > LOSS_CAP:
            skipped += 1
            print(f"epoch {epoch} batch {k}: bad loss, skipped")
            continue
        opt.zero_grad()
        cost.backward()
        xm.optimizer_step(opt)
        total += cost.detach()
        count += 1
    total = float(total)
    total /= count
    print(f"epoch {epoch}: {total:.4f} over {count} batches")
    if total > best - 1.0:
        stale += 1
        if stale == 2:
            print("no progress, stopping early")
            break
    else:
        stale = 0
        best = total
print("skipped", skipped)
