import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

PAD = 0
TAGS = 5
device = torch_xla.device()


def tag_loss(scores, tags, blank=PAD):
    keep = tags != blank
    picked = scores[keep]
    gold = tags[keep]
    return F.cross_entropy(picked, gold)


class Tagger(nn.Module):
    def __init__(self, vocab=30, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.mix = nn.Conv1d(dim, dim, 3, padding=1)
        self.attn = nn.Linear(dim, 1, bias=False)
        self.out = nn.Linear(2 * dim, TAGS)

    def forward(self, ids, mask):
        h = torch.tanh(self.mix(self.emb(ids).transpose(1, 2))).transpose(1, 2)
        scores = self.attn(h).squeeze(-1)
        scores[mask == 0] = -1e4
        soft = scores.softmax(-1) * mask
        soft[soft < 0.01] = soft[soft < 0.01] * 0.5
        summary = (soft.unsqueeze(-1) * h).sum(1, keepdim=True)
        return self.out(torch.cat([h, summary.expand_as(h)], -1))


def sentences(n, length=9):
    ids = torch.randint(1, 30, (n, length))
    size = torch.randint(3, length + 1, (n, 1))
    mask = (torch.arange(length) < size).long()
    tags = (1 + ids % (TAGS - 1)) * mask
    return TensorDataset(ids * mask, tags, mask)


torch.manual_seed(71)
torch_xla.manual_seed(71)
feed = DataLoader(sentences(96), batch_size=12, shuffle=True)
feed = pl.MpDeviceLoader(feed, device)
net = Tagger().to(device)
opt = torch.optim.Adam(net.parameters(), lr=8e-3)

for epoch in range(3):
    right = total = 0
    for ids, tags, mask in feed:
        logits = net(ids, mask)
        loss = tag_loss(logits, tags)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt)
        with torch.no_grad():
            real = mask.bool()
            right += (logits.argmax(-1)[real] == tags[real]).sum()
            total += real.sum()
    right = int(right)
    total = int(total)
    print(f"epoch {epoch}: loss {loss.item():.4f}, token accuracy {right / total:.3f}")
