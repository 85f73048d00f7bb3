import torch
from torch import nn
from torch.utils.data import TensorDataset

from base import Trainer


class Regression(Trainer):
    def build_model(self):
        return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))

    def build_dataset(self):
        x = torch.randn(32, 6, generator=torch.Generator().manual_seed(1))
        return TensorDataset(x, x.sum(1, keepdim=True).sin())
