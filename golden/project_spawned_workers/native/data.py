import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def points(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    return TensorDataset(torch.randn(count, 6, generator=generator) + labels.unsqueeze(1), labels)


def build(batch_size):
    train_set, val_set = points(48, 1), points(24, 2)
    sampler = DistributedSampler(train_set, shuffle=True)
    train_loader = DataLoader(
        train_set, batch_size=batch_size, shuffle=(sampler is None), sampler=sampler, pin_memory=True
    )
    val_loader = DataLoader(val_set, batch_size=batch_size, sampler=DistributedSampler(val_set, shuffle=False))
    return train_loader, val_loader, sampler
