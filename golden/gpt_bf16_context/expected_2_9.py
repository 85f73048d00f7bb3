import argparse
import contextlib
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.amp import syncfree


def memory_info():
    # not every device tells: a CPU does not
    try:
        return xm.get_memory_info()
    except RuntimeError:
        return {"bytes_used": 0, "bytes_limit": 0, "peak_bytes_used": 0}


def parse_args():
    ap = argparse.ArgumentParser("pretrain")
    ap.add_argument("--device", type=str, default="", help="picked when empty")
    ap.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16"])
    ap.add_argument("--num_iterations", type=int, default=12)
    ap.add_argument("--grad_accum", type=int, default=2)
    ap.add_argument("--learning_rate", type=float, default=2e-3)
    ap.add_argument("--compile", type=int, default=0)
    ap.add_argument("--tensorcores", type=int, default=1)
    return ap.parse_args()


class TinyGPT(nn.Module):
    def __init__(self, vocab=48, ctx=12, dim=32, heads=2):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.wpe = nn.Embedding(ctx, dim)
        self.attn = nn.MultiheadAttention(dim, heads, bias=False, batch_first=True)
        self.ln_1, self.ln_2, self.ln_f = (nn.LayerNorm(dim) for _ in range(3))
        self.mlp = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
        )
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        self.register_buffer("mask", torch.triu(torch.ones(ctx, ctx), 1).bool())

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        h = self.ln_1(x)
        x = x + self.attn(h, h, h, attn_mask=self.mask, need_weights=False)[0]
        x = x + self.mlp(self.ln_2(x))
        logits = self.lm_head(self.ln_f(x)).float()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def data_stream(batch=6, ctx=12):
    """Endless batches of counting sequences."""
    while True:
        start = torch.randint(0, 48, (batch, 1))
        seq = (start + 5 * torch.arange(ctx + 1)) % 48
        yield seq[:, :-1], seq[:, 1:]


def main():
    args = parse_args()
    if args.device.startswith("cuda"):
        args.device = "xla"
    device = args.device
    if not device:
        device = "cpu"
        device = "xla"
    device_type = "xla" if device.startswith("xla") else "cpu"
    torch.manual_seed(42)
    torch_xla.manual_seed(42)
    if args.tensorcores:
        torch.set_float32_matmul_precision("high")
    ctx = (
        torch.amp.autocast(device_type=device_type, dtype=torch.bfloat16)
        if args.dtype == "bfloat16" and device_type == "xla"
        else contextlib.nullcontext()
    )
    model = TinyGPT()
    model.train()
    model.to(device)
    optimizer = syncfree.AdamW(
        model.parameters(), lr=args.learning_rate
    )
    stream = data_stream()
    for it in range(args.num_iterations):
        lossf = 0.0
        for micro in range(args.grad_accum):
            x, y = next(stream)
            x, y = x.to(device), y.to(device)
            with ctx:
                loss = model(x, y) / args.grad_accum
                lossf += loss.detach()
            loss.backward()
            torch_xla.sync()
        xm.reduce_gradients(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        lr = (
            args.learning_rate
            * 0.5
            * (1 + math.cos(math.pi * it / args.num_iterations))
        )
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if device == "xla":
            torch_xla.sync(wait=True)
        lossf = lossf.item()
        if it % 3 == 0:
            print(f"step {it} | loss {lossf:.4f} | norm {norm:.3f} | lr {lr:.2e}")
    if device == "xla":
        peak = memory_info()["peak_bytes_used"] // 1024 // 1024
        assert peak >= 0


if __name__ == "__main__":
    main()
