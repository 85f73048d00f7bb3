import torch
from torch.utils.data import Dataset


class BoxDataset(Dataset):
    """Pictures of noise with a class and a box each."""

    def __init__(self, length, seed):
        generator = torch.Generator().manual_seed(seed)
        self.images = torch.randn(length, 3, 8, 8, generator=generator)
        self.labels = torch.randint(0, 5, (length,), generator=generator)
        self.boxes = torch.rand(length, 4, generator=generator)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], {"labels": self.labels[index], "boxes": self.boxes[index]}


def collate(batch):
    images, targets = zip(*batch)
    merged = {key: torch.stack([target[key] for target in targets]) for key in targets[0]}
    return torch.stack(images), merged
