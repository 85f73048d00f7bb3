import torch
from torch.utils.data import DataLoader, TensorDataset


def build_loader(batch_size):
    generator = torch.Generator().manual_seed(3)
    patches = torch.randn(32, 6, 12, generator=generator)
    dataset = TensorDataset(patches, torch.zeros(32))
    return DataLoader(
        dataset, batch_size=batch_size, shuffle=True, num_workers=0, drop_last=True
    )
