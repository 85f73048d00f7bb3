import torch
from torch.utils.data import DataLoader, Dataset


class Discs(Dataset):
    """Pictures of bright discs, and where the disc is."""

    def __init__(self, length, seed):
        generator = torch.Generator().manual_seed(seed)
        self.centres = torch.randint(4, 12, (length, 2), generator=generator)
        self.noise = torch.randn(length, 3, 16, 16, generator=generator) * 0.1

    def __len__(self):
        return len(self.centres)

    def __getitem__(self, index):
        y, x = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
        row, column = self.centres[index]
        mask = ((y - row) ** 2 + (x - column) ** 2 < 9).long()
        return self.noise[index] + mask, mask


def get_loaders(batch_size, num_workers=4, pin_memory=True):
    train_loader = DataLoader(
        Discs(16, seed=1),
        batch_size=batch_size,
        num_workers=num_workers,
        pin_memory=pin_memory,
        shuffle=True,
    )
    val_loader = DataLoader(
        Discs(8, seed=2),
        batch_size=batch_size,
        num_workers=num_workers,
        pin_memory=pin_memory,
        shuffle=False,
    )
    return train_loader, val_loader
