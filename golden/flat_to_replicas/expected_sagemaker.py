# One GPU, everything at the top level.
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DistributedSampler

epochs = 2
lr = 0.05


class Scorer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(7, width)
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        return self.head(F.silu(self.body(x)))


history = []


def fit(batch, target):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(batch), target)
    loss.backward()
    xm.optimizer_step(optimizer)
    return loss


def _mp_fn(index):
    global model, optimizer
    device = xm.xla_device()
    torch.manual_seed(17)
    xm.set_rng_state(17)

    inputs = torch.randn(96, 7, generator=torch.Generator().manual_seed(1))
    labels = (inputs[:, :3].sum(1) > inputs[:, 3:6].sum(1)).long()
    dataset = TensorDataset(inputs, labels)
    sampler = DistributedSampler(
        dataset,
        num_replicas=xm.xrt_world_size(),
        rank=xm.get_ordinal(),
        shuffle=False,
        drop_last=True,
    )
    loader = DataLoader(dataset, batch_size=8, drop_last=True, sampler=sampler)
    loader = pl.MpDeviceLoader(loader, device)

    model = Scorer(20).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    for epoch in range(epochs):
        for batch, target in loader:
            loss = fit(batch, target)
        history.append(loss.item())

    xm.save({"model": model.state_dict(), "epochs": epochs}, "scorer.pt")


if __name__ == "__main__":
    _mp_fn(0)
