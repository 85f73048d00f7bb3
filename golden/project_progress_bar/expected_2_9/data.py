import torch
from torch.utils.data import DataLoader, TensorDataset


def pictures(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 5
    noise = torch.randn(count, 3, 8, 8, generator=generator)
    return TensorDataset(noise + labels.view(-1, 1, 1, 1) * 0.3, labels)


def picture_loaders():
    trainset, testset = pictures(48, 1), pictures(20, 2)
    trainloader = DataLoader(trainset, batch_size=16, shuffle=True, num_workers=0)
    testloader = DataLoader(testset, batch_size=10, shuffle=False, num_workers=0)
    return trainloader, testloader
