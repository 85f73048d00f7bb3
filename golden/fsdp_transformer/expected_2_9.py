"""Train a small language model with FSDP: torchrun --nproc_per_node=8 train.py"""
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.runtime as xr
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP, consolidate_sharded_state_dicts
from torch_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy

VOCABULARY, WIDTH, LENGTH = 48, 32, 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        scores = (q @ k.transpose(-2, -1)) / WIDTH**0.5
        mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        x = x + self.out(weights @ v)
        return x + self.mlp(x)


class LanguageModel(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def sentences(count):
    generator = torch.Generator().manual_seed(7)
    tokens = torch.randint(0, VOCABULARY, (count, LENGTH + 1), generator=generator)
    return TensorDataset(tokens[:, :-1], tokens[:, 1:])


def build(local_rank):
    model = LanguageModel()
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
    return FSDP(
        model,
        auto_wrap_policy=policy,
        compute_dtype=torch.bfloat16,
        fp32_reduce_scatter=True,
        reshard_after_forward=False,
    )


def save(model, rank, path):
    state = consolidate_sharded_state_dicts(xm.mesh_reduce("model_state", model.state_dict(), list), model.get_shard_metadata())
    xm.save({"model": state, "layers": 2}, path)


def main():
    rank, local_rank = xr.global_ordinal(), xr.local_ordinal()
    torch.manual_seed(11)
    torch_xla.manual_seed(11)

    model = build(local_rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12)

    dataset = sentences(96)
    sampler = DistributedSampler(dataset, num_replicas=xr.world_size(), rank=xr.global_ordinal(), shuffle=True, drop_last=True)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler, drop_last=True)
    loader = pl.MpDeviceLoader(loader, torch_xla.device())

    for epoch in range(2):
        sampler.set_epoch(epoch)
        model.train()
        total = torch.zeros(1, device=torch_xla.device())
        for inputs, targets in loader:
            optimizer.zero_grad(set_to_none=True)
            logits = model(inputs)
            loss = F.cross_entropy(logits.float().view(-1, VOCABULARY), targets.view(-1))
            loss.backward()
            model.clip_grad_norm_(1.0)
            optimizer.step()
            scheduler.step()
            total += loss.detach()
        xm.all_reduce("sum", [total])
        total_value = total.item()
        if rank == 0:
            print(f"epoch {epoch}: loss {total_value / (len(loader) * xr.world_size()):.3f}")

    save(model, rank, "model.pt")


def _mp_fn(index):
    main()


if __name__ == "__main__":
    torch_xla.launch(_mp_fn)
