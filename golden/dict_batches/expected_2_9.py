from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset


@dataclass
class TrainConfig:
    lr: float = 3e-3
    batch_size: int = 12
    epochs: int = 3
    seed: int = 99
    betas: tuple = field(default_factory=lambda: (0.9, 0.98))


class Reviews(Dataset):
    """Token ids with an attention mask, padded to a fixed length."""

    def __init__(self, size, vocab=50, length=10):
        self.rows = []
        for i in range(size):
            stars = i % 3
            n = int(torch.randint(4, length + 1, ()))
            ids = torch.zeros(length, dtype=torch.long)
            low = 1 + 16 * stars
            ids[:n] = torch.randint(low, low + 16, (n,))
            self.rows.append({"ids": ids, "mask": (ids > 0).float(), "stars": stars})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return {
            "input_ids": row["ids"],
            "attention_mask": row["mask"],
            "labels": torch.tensor(row["stars"]),
            "name": f"review-{i}",
        }


class Classifier(nn.Module):
    def __init__(self, vocab=50, dim=20):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.out = nn.Linear(dim, 3)
        self.loss_fct = nn.CrossEntropyLoss()

    def forward(self, input_ids, attention_mask, labels=None):
        weights = attention_mask / attention_mask.sum(1, keepdim=True)
        pooled = (self.embed(input_ids) * weights.unsqueeze(-1)).sum(1)
        logits = self.out(torch.tanh(pooled))
        output = {"logits": logits}
        if labels is not None:
            output["loss"] = self.loss_fct(logits, labels)
        return output


def train(cfg: TrainConfig):
    torch.manual_seed(cfg.seed)
    torch_xla.manual_seed(cfg.seed)
    device = torch_xla.device()
    feed = DataLoader(Reviews(96), batch_size=cfg.batch_size, shuffle=True)
    feed = pl.MpDeviceLoader(feed, device)
    net = Classifier().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr, betas=cfg.betas)
    for epoch in range(cfg.epochs):
        loss_sum = correct = seen = 0
        for batch in feed:
            batch = {k: v for k, v in batch.items() if torch.is_tensor(v)}
            out = net(**batch)
            out["loss"].backward()
            xm.optimizer_step(opt)
            opt.zero_grad()
            loss_sum += out["loss"].detach()
            correct += (out["logits"].argmax(-1) == batch["labels"]).sum()
            seen += batch["labels"].size(0)
        loss_sum = float(loss_sum)
        correct = int(correct)
        print(f"epoch {epoch} loss {loss_sum / len(feed):.4f} acc {correct / seen:.3f}")


if __name__ == "__main__":
    train(TrainConfig())
