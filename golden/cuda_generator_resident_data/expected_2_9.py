import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, RandomSampler
import torch_xla
import torch_xla.core.xla_model as xm


class OnDevice(Dataset):
    """The whole data set lives in GPU memory."""

    def __init__(self, n, device):
        g = torch.Generator()
        g.manual_seed(7)
        self.x = torch.randn(n, 12, device=device, generator=g)
        noise = torch.empty(n, device=device).normal_(0, 0.1, generator=g)
        self.y = self.x[:, :4].sum(1) + noise

    def __len__(self):
        return self.x.size(0)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def main():
    device = torch_xla.device()
    torch.manual_seed(7)
    torch_xla.manual_seed(7)
    data = OnDevice(96, device)
    order = torch.Generator()
    order.manual_seed(1)
    loader = DataLoader(
        data, batch_size=12, sampler=RandomSampler(data, generator=order), num_workers=0
    )
    net = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 1)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.02)
    gen = torch.Generator().manual_seed(3)
    for epoch in range(3):
        for x, y in loader:
            mask = torch.rand(x.shape, device=device, generator=gen) > 0.1
            loss = nn.functional.mse_loss(net(x * mask).squeeze(1), y)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            torch_xla.sync()
        print(epoch, f"{loss.item():.4f}")
    state = xm.get_rng_state()
    xm.set_rng_state(state)


if __name__ == "__main__":
    main()
