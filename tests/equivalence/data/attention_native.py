"""A transformer with attention dropout, fed without a loader, under mixed precision on a CUDA
device."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            self.qkv(self.norm(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        )
        p = 0.2 if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(batch, length, width))


torch.manual_seed(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(
    nn.Embedding(20, 32), Block(32), nn.Dropout(0.1), Block(32), nn.Linear(32, 20)
)
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
scaler = torch.amp.GradScaler("cuda")
text = (torch.arange(400) * 7) % 20

for _ in range(12):
    start = torch.randint(0, 380, (6,))
    batch = torch.stack([text[i : i + 13] for i in start]).to(device)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, 20), batch[:, 1:].reshape(-1))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
print("done")
