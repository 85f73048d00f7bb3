# character-level transformer; every setting is a global
import math
from contextlib import nullcontext

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torch.nn import functional as F
from torch_xla.amp import syncfree

max_iters = 24
eval_interval = 8
eval_iters = 3
log_interval = 4
batch_size = 8
block_size = 16
n_layer = 2
n_head = 2
n_embd = 32
learning_rate = 3e-3
min_lr = 3e-4
warmup_iters = 4
grad_clip = 1.0
weight_decay = 0.1
device = "xla"  # 'cpu', 'cuda', 'cuda:0', ...
dtype = "float32"  # 'float32', 'bfloat16'

torch.manual_seed(1337)
torch_xla.manual_seed(1337)
device_type = "xla" if "xla" in device else "cpu"
ctx = (
    nullcontext()
    if device_type == "cpu" or dtype == "float32"
    else torch.amp.autocast(device_type=device_type, dtype=torch.bfloat16)
)

verse = "the wind went over the hill and the rain came after the wind. " * 40
vocab = sorted(set(verse))
stoi = {ch: i for i, ch in enumerate(vocab)}
tokens = np.array([stoi[ch] for ch in verse], dtype=np.uint16)
splits = {"train": tokens[:2000], "val": tokens[2000:]}


def get_batch(split):
    data = torch.from_numpy(splits[split].astype(np.int64))
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    if device_type == "xla":
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
    else:
        x, y = x.to(device), y.to(device)
    return x, y


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(n_embd)
        self.qkv = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.proj = nn.Linear(n_embd, n_embd, bias=False)
        self.ln2 = nn.LayerNorm(n_embd)
        self.up = nn.Linear(n_embd, 4 * n_embd, bias=False)
        self.down = nn.Linear(4 * n_embd, n_embd, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(n_embd, dim=2)
        q, k, v = (z.view(b, t, n_head, c // n_head).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class CharLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(len(vocab), n_embd)
        self.pos = nn.Embedding(block_size, n_embd)
        self.blocks = nn.ModuleList([Block() for _ in range(n_layer)])
        self.ln = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, len(vocab), bias=False)

    def forward(self, idx, targets):
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.tok(idx) + self.pos(pos)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for split in ["train", "val"]:
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            with ctx:
                _, loss = model(*get_batch(split))
            torch_xla.sync()
            losses[k] = loss.item()
        out[split] = losses.mean()
    model.train()
    return out


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / warmup_iters
    ratio = (it - warmup_iters) / (max_iters - warmup_iters)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


model = CharLM()
model.to(device)
decay = [p for p in model.parameters() if p.dim() >= 2]
nodecay = [p for p in model.parameters() if p.dim() < 2]
optimizer = syncfree.AdamW(
    [
        {"params": decay, "weight_decay": weight_decay},
        {"params": nodecay, "weight_decay": 0.0},
    ],
    lr=learning_rate,
    betas=(0.9, 0.95),
)

X, Y = get_batch("train")
for iter_num in range(max_iters):
    lr = get_lr(iter_num)
    for group in optimizer.param_groups:
        group["lr"] = lr
    if iter_num % eval_interval == 0:
        est = estimate_loss()
        print(
            f"step {iter_num}: train loss {est['train']:.4f}, val loss {est['val']:.4f}"
        )
    with ctx:
        logits, loss = model(X, Y)
    X, Y = get_batch("train")  # fetch the next batch while the GPU is busy
    loss.backward()
    xm.reduce_gradients(optimizer)
    if grad_clip != 0.0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    torch_xla.sync()
    if iter_num % log_interval == 0:
        print(f"iter {iter_num}: loss {loss.item():.4f}, lr {lr:.2e}")
