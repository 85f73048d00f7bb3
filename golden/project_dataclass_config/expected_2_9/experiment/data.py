import torch
from torch.utils.data import DataLoader, TensorDataset


def make_loader(batch_size: int) -> DataLoader:
    generator = torch.Generator().manual_seed(8)
    x = torch.randn(40, 20, generator=generator)
    return DataLoader(
        TensorDataset(x, torch.arange(40) % 4), batch_size=batch_size, shuffle=True
    )
