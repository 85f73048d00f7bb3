"""Sentence classifier with dropout: each process draws masks and noise of its own.

The checkpoint of the epoch in which the first process saw the lowest training loss is kept.
"""

import random

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

SEED = 1337


def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    xm.set_rng_state(seed)


class Sentences(Dataset):
    def __init__(self, count=96, length=10, vocabulary=40):
        generator = torch.Generator().manual_seed(SEED)
        self.words = torch.randint(vocabulary, (count, length), generator=generator)
        self.labels = (self.words < vocabulary // 2).sum(dim=1) % 2

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        return self.words[index], self.labels[index]


class Classifier(nn.Module):
    def __init__(self, vocabulary=40, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, 2)
        )

    def forward(self, words):
        return self.head(self.dropout(self.embedding(words)).mean(dim=1))


def keep(model, path):
    xm.save(model.state_dict(), path)
    if xm.is_master_ordinal(local=False):
        print("kept", path)


def main():
    rank, local_rank = xm.get_ordinal(), xm.get_local_ordinal()
    # Other masks on each rank; DDP makes the weights equal.
    seed_everything(SEED + rank)

    dataset = Sentences()
    sampler = DistributedSampler(
        dataset, num_replicas=xm.xrt_world_size(), rank=xm.get_ordinal(), seed=SEED
    )
    device = xm.xla_device()
    loader = DataLoader(dataset, batch_size=12, sampler=sampler)
    loader = pl.MpDeviceLoader(loader, device)
    model = Classifier().to(device)
    xm.collective_broadcast([*model.parameters(), *model.buffers()])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss()

    best = float("inf")
    for epoch in range(3):
        sampler.set_epoch(epoch)
        model.train()
        total = 0.0
        for words, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(words), labels)
            loss.backward()
            xm.optimizer_step(optimizer)
            total += loss.detach()
        total = float(total)
        mean = total / len(loader)
        if xm.mesh_reduce("main_saves", bool(mean < best), lambda answers: answers[0]):
            best = mean
            xm.save({"epoch": epoch, "model": model.state_dict()}, "best.pt")
            if rank == 0:
                print(f"epoch {epoch}: best so far, {best:.5f}")

    keep(model, "last.pt")


def _mp_fn(index):
    main()


if __name__ == "__main__":
    _mp_fn(0)
