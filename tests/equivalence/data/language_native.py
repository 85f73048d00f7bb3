"""A small language model with what migrations get wrong: tied weights, a scaler and clipping, a
sampler that wants to know the epoch, a last batch that is smaller, validation, a checkpoint."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Model(nn.Module):
    def __init__(self, words=24, width=16):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.inner = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.dropout(torch.tanh(self.inner(self.embedding(tokens)))))


def loss_of(model, tokens):
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def main():
    torch.manual_seed(3)
    device = torch.device("cuda")
    text = (torch.arange(30 * 8).view(30, 8) * 5) % 24
    data, held_out = TensorDataset(text[:22]), TensorDataset(text[22:])
    sampler = DistributedSampler(data, num_replicas=1, rank=0, shuffle=True)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    held_out = DataLoader(held_out, batch_size=4)
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.9)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        model.train()
        for step, (tokens,) in enumerate(loader):
            tokens = tokens.to(device)
            optimizer.zero_grad()
            loss = loss_of(model, tokens)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
        scheduler.step()
        model.eval()
        total = torch.zeros((), device=device)
        with torch.no_grad():
            for (tokens,) in held_out:
                total += loss_of(model, tokens.to(device))
        print(f"epoch {epoch}: {total.item() / len(held_out):.3f}")
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
