"""Classify synthetic sequences; mixed precision by apex where it is asked for."""
import argparse
import os
import random

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch_xla.amp import syncfree

try:
    from apex.normalization import FusedLayerNorm as LayerNorm
except ImportError:
    from torch.nn import LayerNorm


class Encoder(nn.Module):
    def __init__(self, vocab, width, classes):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.norm = LayerNorm(width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids, labels=None):
        hidden = torch.relu(self.mix(self.norm(self.embed(ids))))
        logits = self.head(hidden.mean(1))
        if labels is None:
            return (logits,)
        return nn.functional.cross_entropy(logits, labels), logits


def set_seed(args):
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch_xla.manual_seed(args.seed)


def make_data(count, length, vocab):
    ids = torch.randint(vocab, (count, length))
    labels = (ids.float().mean(1) > vocab / 2).long()
    return TensorDataset(ids, labels)


def train(args, model, train_set):
    loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    loader = pl.MpDeviceLoader(loader, args.device)
    total = len(loader) // args.gradient_accumulation_steps * args.epochs
    optimizer = syncfree.AdamW(model.parameters(), lr=args.learning_rate, eps=1e-8)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: max(0.0, 1 - s / total))

    global_step = 0
    tr_loss = 0.0
    model.zero_grad()
    for epoch in range(args.epochs):
        model.train()
        for step, batch in enumerate(loader):
            batch = tuple(batch)
            with torch.autocast("xla", dtype=torch.bfloat16, enabled=args.fp16 and args.fp16_opt_level != "O0"):
                outputs = model(batch[0], labels=batch[1])
                loss = outputs[0]
                if args.gradient_accumulation_steps > 1:
                    loss = loss / args.gradient_accumulation_steps

            loss.backward()

            tr_loss += loss.detach().float()
            if (step + 1) % args.gradient_accumulation_steps == 0:
                xm.reduce_gradients(optimizer)
                if args.fp16:
                    torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], args.max_grad_norm)
                else:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
                optimizer.step()
                scheduler.step()
                model.zero_grad()
                global_step += 1
        tr_loss = float(tr_loss)
        print(f"epoch {epoch}: {tr_loss / global_step:.4f}")

    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": global_step}
    os.makedirs(args.output_dir, exist_ok=True)
    xm.save(state, os.path.join(args.output_dir, "checkpoint.pt"))
    return model


def evaluate(args, model, test_set):
    model.eval()
    hits = 0
    for ids, labels in pl.MpDeviceLoader(DataLoader(test_set, batch_size=args.batch_size), args.device):
        with torch.no_grad():
            logits = model(ids)[0]
        hits += (logits.argmax(-1) == labels).sum()
    hits = int(hits)
    return hits / len(test_set)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--learning_rate", type=float, default=5e-3)
    parser.add_argument("--max_grad_norm", type=float, default=1.0)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=2)
    parser.add_argument("--fp16", action="store_true", help="mixed precision through apex")
    parser.add_argument("--fp16_opt_level", default="O1", help="one of O0, O1, O2, O3")
    parser.add_argument("--output_dir", default="out")
    args = parser.parse_args()
    args.device = torch_xla.device()

    set_seed(args)
    model = Encoder(50, 16, 2).to(args.device)
    model = train(args, model, make_data(128, 12, 50))
    print(f"accuracy: {evaluate(args, model, make_data(64, 12, 50)):.4f}")


if __name__ == "__main__":
    main()
