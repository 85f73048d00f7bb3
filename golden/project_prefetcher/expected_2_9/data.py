import torch
from torch.utils.data import TensorDataset


def make_dataset(length, seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (length, 3, 8, 8), generator=generator, dtype=torch.uint8)
    return TensorDataset(images, torch.arange(length) % 4)


def fast_collate(batch):
    """Bytes stay bytes: the device makes them floats."""
    images = torch.stack([image for image, _ in batch])
    targets = torch.tensor([int(target) for _, target in batch], dtype=torch.int64)
    return images, targets
