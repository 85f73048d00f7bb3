"""Sentence classifier with dropout: each process draws masks and noise of its own.

The checkpoint of the epoch in which the first process saw the lowest training loss is kept.
"""

import os
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

SEED = 1337


def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


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
    if dist.get_rank() != 0:
        return
    torch.save(model.module.state_dict(), path)
    print("kept", path)


def main():
    dist.init_process_group("nccl")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    # Other masks on each rank; DDP makes the weights equal.
    seed_everything(SEED + rank)

    dataset = Sentences()
    sampler = DistributedSampler(dataset, seed=SEED)
    loader = DataLoader(dataset, batch_size=12, sampler=sampler)
    model = DDP(Classifier().cuda(local_rank), device_ids=[local_rank])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss()

    best = float("inf")
    for epoch in range(3):
        sampler.set_epoch(epoch)
        model.train()
        total = 0.0
        for words, labels in loader:
            words, labels = words.cuda(local_rank), labels.cuda(local_rank)
            optimizer.zero_grad()
            loss = criterion(model(words), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        mean = total / len(loader)
        if rank == 0 and mean < best:
            best = mean
            torch.save({"epoch": epoch, "model": model.module.state_dict()}, "best.pt")
            print(f"epoch {epoch}: best so far, {best:.5f}")

    keep(model, "last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
