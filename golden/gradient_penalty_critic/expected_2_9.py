"""Wasserstein critic with gradient penalty, several critic steps per generator step."""

import argparse

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--n-critic", type=int, default=3)
parser.add_argument("--lambda-gp", type=float, default=1.0)
parser.add_argument("--latent", type=int, default=4)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()
torch.manual_seed(25)
torch_xla.manual_seed(25)
device = torch_xla.device()


def mlp(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 24), nn.Tanh(), nn.Linear(24, n_out))


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1, device=real.device)
    mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = critic(mixed)
    (grad,) = torch.autograd.grad(
        outputs=score,
        inputs=mixed,
        grad_outputs=torch.ones_like(score),
        create_graph=True,
    )
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


class WGAN:
    def __init__(self):
        self.gen = mlp(args.latent, 2).to(device)
        self.critic = mlp(2, 1).to(device)
        self.optimizers = {
            "gen": torch.optim.RMSprop(self.gen.parameters(), lr=2e-3, eps=1e-3),
            "critic": torch.optim.RMSprop(self.critic.parameters(), lr=4e-3, eps=1e-3),
        }
        self.loss_critic, self.loss_gen = [], []

    def critic_step(self, real):
        z = torch.randn(real.size(0), args.latent, device=device)
        fake = self.gen(z).detach()
        loss = self.critic(fake).mean() - self.critic(real).mean()
        loss = loss + args.lambda_gp * gradient_penalty(self.critic, real, fake)
        self.optimizers["critic"].zero_grad()
        loss.backward()
        xm.optimizer_step(self.optimizers["critic"])
        torch_xla.sync()
        self.loss_critic.append(loss.item())

    def gen_step(self, n):
        z = torch.randn(n, args.latent, device=device)
        loss = -self.critic(self.gen(z)).mean()
        self.optimizers["gen"].zero_grad()
        loss.backward()
        xm.optimizer_step(self.optimizers["gen"])
        torch_xla.sync()
        self.loss_gen.append(loss.item())


data = torch.randn(96, 2) * 0.3 + torch.tensor([2.0, -1.0])
loader = DataLoader(TensorDataset(data), batch_size=12, shuffle=True, drop_last=True)
loader = pl.MpDeviceLoader(loader, device)
gan = WGAN()
for epoch in range(args.epochs):
    for i, (real,) in enumerate(loader):
        gan.critic_step(real)
        if (i + 1) % args.n_critic == 0:
            gan.gen_step(real.size(0))
    print(
        f"epoch {epoch} critic {gan.loss_critic[-1]:.4f} generator {gan.loss_gen[-1]:.4f}"
    )
