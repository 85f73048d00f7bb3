import time

import torch
import torch._dynamo
import torch._inductor.config
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

torch._dynamo.config.suppress_errors = True
torch._inductor.config.coordinate_descent_tuning = True

device = torch_xla.device()
torch.manual_seed(0)
torch_xla.manual_seed(0)


class Mixer(nn.Module):
    def __init__(self, tokens=16, dim=32):
        super().__init__()
        self.token = nn.Linear(tokens, tokens)
        self.channel = nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim))
        self.head = nn.Linear(dim, 10)

    def forward(self, x):
        x = x + self.token(x.transpose(1, 2)).transpose(1, 2)
        x = x + self.channel(x)
        return self.head(x.mean(1))


def loss_fn(logits, labels):
    return nn.functional.cross_entropy(logits, labels)


x = torch.randn(256, 16, 32)
y = torch.randint(0, 10, (256,))
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, drop_last=True)
loader = pl.MpDeviceLoader(loader, device)
net = Mixer().to(device)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, capturable=True)

for epoch in range(3):
    tic = time.time()
    for x, y in loader:
        loss = loss_fn(net(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        xm.optimizer_step(optimizer)
    torch_xla.sync(wait=True)
    print(f"epoch {epoch} loss {loss.item():.4f} {time.time() - tic:.1f}s")

core = getattr(net, "_orig_mod", net)
xm.save(core.state_dict(), "mixer.pt")
