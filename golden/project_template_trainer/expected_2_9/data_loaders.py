import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.sampler import SubsetRandomSampler


class SyntheticDataLoader(DataLoader):
    """A loader that keeps some of its samples for validation."""

    def __init__(self, batch_size, shuffle, length, validation):
        generator = torch.Generator().manual_seed(5)
        labels = torch.arange(length) % 3
        images = torch.randn(length, 1, 12, 12, generator=generator) + labels.view(-1, 1, 1, 1)
        indices = torch.randperm(length, generator=generator).tolist()
        self.valid_sampler = SubsetRandomSampler(indices[:validation])
        self.init_kwargs = {"dataset": TensorDataset(images, labels), "batch_size": batch_size}
        super().__init__(sampler=SubsetRandomSampler(indices[validation:]), **self.init_kwargs)

    def split_validation(self):
        return DataLoader(sampler=self.valid_sampler, **self.init_kwargs)
