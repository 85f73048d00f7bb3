import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self, noise):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(noise, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, z):
        return self.layers(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, x):
        return self.layers(x).squeeze(1)


@torch.no_grad()
def follow(model, average, decay):
    for new, old in zip(model.parameters(), average.parameters()):
        old.mul_(decay).add_(new, alpha=1 - decay)
