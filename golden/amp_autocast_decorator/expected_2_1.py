import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch_xla.amp import GradScaler, syncfree


class Encoder(nn.Module):
    def __init__(self, vocab=32, dim=24):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.conv = nn.Conv1d(dim, dim, kernel_size=3, padding=1)
        self.norm = nn.LayerNorm(dim)
        self.cls = nn.Linear(dim, 2)

    @torch.autocast("xla", dtype=torch.bfloat16)
    def forward(self, ids):
        h = self.tok(ids)
        h = torch.relu(self.conv(h.transpose(1, 2))).transpose(1, 2)
        return self.cls(self.norm(h.mean(dim=1)))


@torch.no_grad()
@torch.autocast("xla", dtype=torch.bfloat16, enabled=True)
def validate(model, loader):
    model.eval()
    hits = sum(
        (model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in loader
    )
    model.train()
    return hits / len(loader.dataset)


def corpus(n):
    y = torch.randint(0, 2, (n,))
    x = torch.randint(0, 32, (n, 10))
    x[:, 0::2] = torch.where(y.bool()[:, None], x[:, 0::2] // 2, x[:, 0::2])
    return TensorDataset(x, y)


torch.manual_seed(202)
xm.set_rng_state(202)
device = xm.xla_device()
train_loader = DataLoader(corpus(96), batch_size=12, shuffle=True)
train_loader = pl.MpDeviceLoader(train_loader, device)
val_loader = DataLoader(corpus(48), batch_size=24)
model = Encoder().to(device)
optimizer = syncfree.Adam(model.parameters(), lr=4e-3)
scaler = GradScaler(init_scale=1024.0)

for epoch in range(3):
    for ids, labels in train_loader:
        logits = model(ids)
        # the loss is computed in full precision
        with torch.autocast("xla", dtype=torch.bfloat16, enabled=False):
            loss = nn.functional.cross_entropy(logits.float(), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        xm.reduce_gradients(optimizer)
        scaler.step(optimizer)
        scaler.update()
    print(f"epoch {epoch} loss {loss.item():.4f} acc {validate(model, val_loader):.3f}")
xm.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, "encoder.pt")
