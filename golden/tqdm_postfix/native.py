import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

BATCH = 8
EPOCHS = 2
LOG_EVERY = 5

torch.manual_seed(0)
dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")

seq = torch.linspace(0, 30, 200)
wave = torch.sin(seq) + 0.3 * torch.sin(3.1 * seq)
windows = wave.unfold(0, 20, 2)
xs_all, ys_all = windows[:, :-1], windows[:, -1:]
feed = DataLoader(TensorDataset(xs_all, ys_all), batch_size=BATCH, shuffle=True)
hold = DataLoader(TensorDataset(xs_all[:30], ys_all[:30]), batch_size=BATCH)

net = nn.Sequential(nn.Linear(19, 32), nn.Tanh(), nn.Linear(32, 1)).to(dev)
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
crit = nn.MSELoss()


def check(net, hold):
    net.eval()
    worst = 0.0
    with torch.no_grad():
        for xs, ys in tqdm(hold, desc="valid", leave=False):
            gap = (net(xs.to(dev)) - ys.to(dev)).abs().max()
            worst = max(worst, gap.item())
    net.train()
    return worst


for epoch in range(EPOCHS):
    meter = 0.0
    bar = tqdm(feed, desc=f"epoch {epoch}", total=len(feed))
    for k, (xs, ys) in enumerate(bar):
        opt.zero_grad()
        cost = crit(net(xs.to(dev)), ys.to(dev))
        cost.backward()
        opt.step()
        meter += cost.item()
        bar.set_postfix(loss=f"{cost:.4f}")
        if (k + 1) % LOG_EVERY == 0:
            tqdm.write(f"step {k + 1}: {meter / LOG_EVERY:.4f}")
            meter = 0.0
    bar.close()
    print(f"largest error {check(net, hold):.4f}")
