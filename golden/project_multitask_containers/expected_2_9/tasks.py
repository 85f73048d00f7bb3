import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TASKS = ["classify", "regress"]


class SharedTrunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 16), nn.Tanh())
        self.heads = nn.ModuleDict({"classify": nn.Linear(16, 3), "regress": nn.Linear(16, 1)})

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))


def build_model():
    return SharedTrunk()


def build_optimizers(model):
    shared = list(model.trunk.parameters())
    optimizers = {"shared": torch.optim.Adam(shared, lr=1e-2)}
    for task in TASKS:
        optimizers[task] = torch.optim.SGD(model.heads[task].parameters(), lr=1e-1)
    return optimizers


def build_loaders():
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(24, 10, generator=generator)
    sets = {
        "classify": TensorDataset(x, torch.arange(24) % 3),
        "regress": TensorDataset(x, x.sum(1, keepdim=True)),
    }
    return {task: DataLoader(data, batch_size=8, shuffle=True) for task, data in sets.items()}
