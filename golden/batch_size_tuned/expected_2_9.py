import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

BATCH = 12  # largest that fits on a 16 GB card
LR = 3e-3
EPOCHS = 3
WARMUP_STEPS = 6


def warmup(opt, steps):
    return torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / steps))


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.inner = nn.Sequential(
            nn.LayerNorm(dim),
            nn.Linear(dim, 2 * dim),
            nn.GELU(),
            nn.Linear(2 * dim, dim),
        )

    def forward(self, x):
        return x + self.inner(x)


torch.manual_seed(100)
torch_xla.manual_seed(100)
device = torch_xla.device()
x = torch.randn(100, 16)
y = (x[:, 0] * x[:, 1] > 0).long() * 2 + (x[:, 2] > 0).long()
ds = TensorDataset(x, y)
feed = DataLoader(ds, batch_size=BATCH, shuffle=True, drop_last=True)
feed = pl.MpDeviceLoader(feed, device)

net = nn.Sequential(Residual(16), Residual(16), nn.Linear(16, 4)).to(device)
crit = nn.CrossEntropyLoss()
opt = torch.optim.AdamW(net.parameters(), lr=LR, weight_decay=0.1)
sched = warmup(opt, steps=WARMUP_STEPS)

for epoch in range(EPOCHS):
    for xs, ys in feed:
        opt.zero_grad()
        crit(net(xs), ys).backward()
        xm.optimizer_step(opt)
        sched.step()
print("done")
print("accuracy", (net(x.to(device)).argmax(1).cpu() == y).float().mean().item())
