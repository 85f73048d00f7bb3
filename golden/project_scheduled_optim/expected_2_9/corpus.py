import torch
from torch.utils.data import DataLoader, TensorDataset

import constants


def sentences(count, seed):
    """Copies of random words, some with padding at the end."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(2, constants.VOCABULARY, (count, constants.LENGTH), generator=generator)
    lengths = torch.randint(3, constants.LENGTH + 1, (count, 1), generator=generator)
    words = words.masked_fill(torch.arange(constants.LENGTH) >= lengths, constants.PAD)
    begin = torch.full((count, 1), constants.BOS)
    return words, torch.cat([begin, words], dim=1)


def prepare_dataloaders(batch_size):
    train = TensorDataset(*sentences(40, seed=1))
    valid = TensorDataset(*sentences(16, seed=2))
    return (
        DataLoader(train, batch_size=batch_size, shuffle=True),
        DataLoader(valid, batch_size=batch_size),
    )
