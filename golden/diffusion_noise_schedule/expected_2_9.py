# %% [markdown]
# # A very small diffusion model on 2-D points
# %%
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

# %%
device = torch_xla.device()
torch.manual_seed(5); torch_xla.manual_seed(5)
T = 20

# %%
betas = torch.linspace(1e-3, 0.3, T, device=device)
alphas_bar = torch.cumprod(1. - betas, dim=0)
sqrt_ab, sqrt_1mab = alphas_bar.sqrt(), (1. - alphas_bar).sqrt()

def q_sample(x0, t, noise):
    return sqrt_ab[t][:, None]*x0 + sqrt_1mab[t][:, None]*noise

# %%
class Denoiser(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.freqs = nn.Parameter(torch.exp(-math.log(100.)*torch.arange(8)/8), requires_grad=False)
        self.net = nn.Sequential(nn.Linear(2+16, dim), nn.SiLU(),
                                 nn.Linear(dim, dim), nn.SiLU(),
                                 nn.Linear(dim, 2))
    def forward(self, x, t):
        ang = t.float()[:, None]*self.freqs
        return self.net(torch.cat([x, ang.sin(), ang.cos()], dim=-1))

# %%
angle = torch.rand(128)*2*math.pi
ring = torch.stack([angle.cos(), angle.sin()], 1)
loader = DataLoader(TensorDataset(ring), batch_size=16, shuffle=True, drop_last=True)
loader = pl.MpDeviceLoader(loader, device)
model = Denoiser().to(device)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)

# %%
log = []
for epoch in range(3):
    for step, (x0,) in enumerate(loader):
        t = torch.randint(0, T, (x0.shape[0],), device=device)
        noise = torch.randn_like(x0)
        loss = F.mse_loss(model(q_sample(x0, t, noise), t), noise)
        opt.zero_grad(); loss.backward(); xm.optimizer_step(opt)

        def log_step(loss):
            log.append(loss.item())

        xm.add_step_closure(log_step, args=(loss,))
    print('epoch', epoch, 'loss', sum(log[-8:])/8)

# %%
@torch.no_grad()
def sample(n):
    x = torch.randn(n, 2, device=device)
    for i in reversed(range(T)):
        t = torch.full((n,), i, device=device, dtype=torch.long)
        eps = model(x, t)
        x = (x - betas[i]/sqrt_1mab[i]*eps)/(1. - betas[i]).sqrt()
        torch_xla.sync()
        if i > 0: x = x + betas[i].sqrt()*torch.randn_like(x)
    return x.cpu()

pts = sample(16)
print('mean radius', pts.norm(dim=1).mean().item())
torch.save(pts, 'samples.pt')