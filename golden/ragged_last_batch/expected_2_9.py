'''Small tiles, two loaders of which neither divides evenly.'''
import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


class TileSet(Dataset):
    def __init__(self, split, side = 6):
        n = {'train': 103, 'val': 27, 'extra': 31}[split]
        self.kind = torch.arange(n) % 2
        stripes = torch.arange(side) % 2 * 2.0 - 1
        across = stripes.repeat(side, 1)
        self.tiles = [(across if k else across.t()) + 1.8 * torch.randn(side, side) for k in self.kind.tolist()]

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, i):
        return self.tiles[i].unsqueeze(0), self.kind[i]


def fit_epoch(net, opt, feed):
    net.train()
    for xs, ys in feed:
        opt.zero_grad()
        nn.functional.cross_entropy(net(xs), ys).backward()
        xm.optimizer_step(opt)


@torch.no_grad()
def accuracy(net, hold):
    net.eval()
    hit = seen = 0
    for xs, ys in hold:
        guess = net(xs).argmax(1)
        hit += (guess == ys).sum()
        seen += ys.numel()
    net.train()
    return float(hit) / seen


torch.manual_seed(14)
torch_xla.manual_seed(14)
tiles = TileSet('train', side = 6)
tiles_val = TileSet('val', side = 6)
device = torch_xla.device()
feed = DataLoader(tiles, batch_size = 12, shuffle = True)
feed = pl.MpDeviceLoader(feed, device)
hold = DataLoader(tiles_val, batch_size = 12)
hold = pl.MpDeviceLoader(hold, device)
# every item of this one has to be seen
extra = DataLoader(TileSet('extra'), batch_size = 12, shuffle = True, drop_last = False)
extra = pl.MpDeviceLoader(extra, device)

net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)).to(device)
opt = torch.optim.SGD(net.parameters(), lr = 0.01, momentum = 0.9)

for epoch in range(2):
    fit_epoch(net, opt, feed)
    print(epoch, 'accuracy %.4f' % accuracy(net, hold))
fit_epoch(net, opt, extra)
print('after the extra tiles %.4f' % accuracy(net, hold))
