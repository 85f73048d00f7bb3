import torch
from torch.utils.data import DataLoader, Dataset


class PairedDataset(Dataset):
    def __init__(self, length):
        generator = torch.Generator().manual_seed(6)
        self.pictures = torch.rand(length, 3, 8, 8, generator=generator) * 2 - 1

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        picture = self.pictures[index]
        return {"A": picture, "B": picture.flip(0), "A_paths": f"{index}.png"}


class CustomDatasetLoader:
    """A wrapper that gives the batches of a loader"""

    def __init__(self, opt):
        self.opt = opt
        self.dataset = PairedDataset(16)
        self.dataloader = DataLoader(self.dataset, batch_size=opt.batch_size, shuffle=True, num_workers=0)

    def __len__(self):
        return len(self.dataset)

    def __iter__(self):
        for data in self.dataloader:
            yield data


def create_dataset(opt):
    return CustomDatasetLoader(opt)
