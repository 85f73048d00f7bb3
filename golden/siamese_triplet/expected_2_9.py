import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


class TripletData(Dataset):
    def __init__(self, n, classes=5, dim=12):
        self.proto = torch.randn(classes, dim)
        self.n = n
        self.noise = 0.8 * torch.randn(n, 3, dim)
        self.pos = torch.randint(0, classes, (n,))
        self.neg = (self.pos + torch.randint(1, classes, (n,))) % classes

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        p, q = self.proto[self.pos[i]], self.proto[self.neg[i]]
        anchor, positive, negative = torch.stack([p, p, q]) + self.noise[i]
        return (anchor, positive), negative


class Tower(nn.Module):
    def __init__(self, dim=12, out=6):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(dim, 24), nn.Tanh(), nn.Linear(24, out))

    def forward(self, x):
        return F.normalize(self.fc(x), dim=-1)


class SiameseModel(nn.Module):
    def __init__(self, margin=0.5):
        super().__init__()
        self.tower = Tower()
        self.margin = margin

    def forward(self, a, p, n):
        a, p, n = self.tower(a), self.tower(p), self.tower(n)
        d_ap = (a - p).pow(2).sum(1)
        d_an = (a - n).pow(2).sum(1)
        return F.softplus(d_ap - d_an + self.margin), d_ap, d_an


def main(device="xla", epochs=3):
    torch.manual_seed(64)
    torch_xla.manual_seed(64)
    train_set = test_set = TripletData(96)  # the noise is what matters here
    loader = DataLoader(train_set, batch_size=12, shuffle=True)
    loader = pl.MpDeviceLoader(loader, device)
    eval_loader = DataLoader(test_set, batch_size=32)
    eval_loader = pl.MpDeviceLoader(eval_loader, device)
    model = SiameseModel().to(device)
    optim = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    for ep in range(epochs):
        model.train()
        total = 0.0
        for (a, p), n in loader:
            optim.zero_grad()
            loss, _, _ = model(a, p, n)
            loss = loss.mean()
            loss.backward()
            xm.optimizer_step(optim)
            total += loss.detach()
        total = float(total)
        model.eval()
        right = 0
        with torch.no_grad():
            for (a, p), n in eval_loader:
                _, d_ap, d_an = model(a, p, n)
                right += (d_ap < d_an).sum()
            right = int(right)
        print(f"ep {ep} loss {total / len(loader):.4f} ranked {right}/{len(test_set)}")


if __name__ == "__main__":
    main()
