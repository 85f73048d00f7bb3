import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

BATCH = 8
EPOCHS = 2
LOG_EVERY = 5

torch.manual_seed(0)
torch_xla.manual_seed(0)
dev = torch_xla.device()

seq = torch.linspace(0, 30, 200)
wave = torch.sin(seq) + 0.3 * torch.sin(3.1 * seq)
windows = wave.unfold(0, 20, 2)
xs_all, ys_all = windows[:, :-1], windows[:, -1:]
feed = DataLoader(TensorDataset(xs_all, ys_all), batch_size=BATCH, shuffle=True)
feed_device_loader = pl.MpDeviceLoader(feed, dev)
hold = DataLoader(TensorDataset(xs_all[:30], ys_all[:30]), batch_size=BATCH)
hold = pl.MpDeviceLoader(hold, dev)

net = nn.Sequential(nn.Linear(19, 32), nn.Tanh(), nn.Linear(32, 1)).to(dev)
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
crit = nn.MSELoss()


def check(net, hold):
    net.eval()
    worst = 0.0
    with torch.no_grad():
        for xs, ys in tqdm(hold, desc="valid", leave=False):
            gap = (net(xs) - ys).abs().max()

            def log_step(gap):
                nonlocal worst
                worst = max(worst, gap.item())

            xm.add_step_closure(log_step, args=(gap,))
    net.train()
    return worst


for epoch in range(EPOCHS):
    meter = 0.0
    bar = tqdm(feed_device_loader, desc=f"epoch {epoch}", total=len(feed))
    for k, (xs, ys) in enumerate(bar):
        opt.zero_grad()
        cost = crit(net(xs), ys)
        cost.backward()
        xm.optimizer_step(opt)
        meter += cost.detach()

        def log_step(cost):
            bar.set_postfix(loss=f"{cost:.4f}")

        xm.add_step_closure(log_step, args=(cost,))
        if (k + 1) % LOG_EVERY == 0:

            def log_step_2(k, meter):
                meter = float(meter)
                tqdm.write(f"step {k + 1}: {meter / LOG_EVERY:.4f}")

            xm.add_step_closure(log_step_2, args=(k, meter))
            meter = 0.0
    meter = float(meter)
    bar.close()
    print(f"largest error {check(net, hold):.4f}")
