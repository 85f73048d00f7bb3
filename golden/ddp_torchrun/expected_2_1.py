"""Character classifier trained with DDP; start it with  torchrun --nproc_per_node=N native.py"""

import argparse

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.runtime as xr
from torch import nn
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
        self.local_rank = xr.local_ordinal()
        self.rank = xr.global_ordinal()
        self.device = xm.xla_device()
        self.model = model.to(self.device)
        xm.broadcast_master_param(self.model)
        self.loader = loader
        self.optimizer = optimizer(self.model.parameters())
        self.criterion = nn.CrossEntropyLoss()
        self.args = args

    def run_batch(self, chars, kind):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.criterion(self.model(chars), kind)
        loss.backward()
        xm.optimizer_step(self.optimizer)
        return loss

    def train(self):
        for epoch in range(self.args.epochs):
            self.loader.sampler.set_epoch(epoch)
            total = torch.zeros((), device=self.device)
            for chars, kind in pl.MpDeviceLoader(self.loader, self.device):
                total += self.run_batch(chars, kind).detach()
            total_value = total.item()
            if self.rank == 0:
                print(f"epoch {epoch}: loss {total_value / len(self.loader):.5f}")
        self.save()

    def save(self):
        xm.save(self.model.state_dict(), self.args.output)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=48, help="over all processes")
    parser.add_argument("--output", default="names.pt")
    return parser.parse_args()


def main():
    args = parse_args()
    world_size = xr.world_size()

    dataset = Names()
    sampler = DistributedSampler(dataset, num_replicas=xr.world_size(), rank=xr.global_ordinal())
    loader = DataLoader(
        dataset, batch_size=args.batch_size // world_size, sampler=sampler
    )
    trainer = Trainer(Classifier(), loader, lambda ps: torch.optim.AdamW(ps, lr=1e-2), args)
    trainer.train()

    xm.rendezvous("main")


def _mp_fn(index):
    main()


if __name__ == "__main__":
    xmp.spawn(_mp_fn)
