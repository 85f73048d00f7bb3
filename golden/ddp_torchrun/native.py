"""Character classifier trained with DDP; start it with  torchrun --nproc_per_node=N native.py"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Names(Dataset):
    def __init__(self, size=96, length=12, vocab=32):
        g = torch.Generator().manual_seed(11)
        self.chars = torch.randint(0, vocab, (size, length), generator=g)
        self.kind = self.chars.sum(1) % 3

    def __len__(self):
        return len(self.chars)

    def __getitem__(self, i):
        return self.chars[i], self.kind[i]


class Classifier(nn.Module):
    def __init__(self, vocab=32, width=24, kinds=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.head = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, kinds))

    def forward(self, chars):
        return self.head(self.embed(chars).mean(1))


class Trainer:
    def __init__(self, model, loader, optimizer, args):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.rank = int(os.environ["RANK"])
        self.device = torch.device(f"cuda:{self.local_rank}")
        self.model = model.to(self.device)
        self.model = DistributedDataParallel(
            self.model, device_ids=[self.local_rank], output_device=self.local_rank
        )
        self.loader = loader
        self.optimizer = optimizer(self.model.parameters())
        self.criterion = nn.CrossEntropyLoss()
        self.args = args

    def run_batch(self, chars, kind):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.criterion(self.model(chars), kind)
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self):
        for epoch in range(self.args.epochs):
            self.loader.sampler.set_epoch(epoch)
            total = torch.zeros((), device=self.device)
            for chars, kind in self.loader:
                chars = chars.to(self.device, non_blocking=True)
                kind = kind.to(self.device, non_blocking=True)
                total += self.run_batch(chars, kind).detach()
            if self.rank == 0:
                print(f"epoch {epoch}: loss {total.item() / len(self.loader):.5f}")
        self.save()

    def save(self):
        if self.rank == 0:
            torch.save(self.model.module.state_dict(), self.args.output)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=48, help="over all processes")
    parser.add_argument("--output", default="names.pt")
    return parser.parse_args()


def main():
    args = parse_args()
    dist.init_process_group(backend="nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    world_size = int(os.environ["WORLD_SIZE"])

    dataset = Names()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(
        dataset, batch_size=args.batch_size // world_size, sampler=sampler, pin_memory=True
    )
    trainer = Trainer(Classifier(), loader, lambda ps: torch.optim.AdamW(ps, lr=1e-2), args)
    trainer.train()

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
