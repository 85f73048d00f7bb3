import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch_xla.amp import GradScaler, autocast, syncfree

config = {
    "epochs": 2,
    "batch_size": 8,
    "accumulation": 2,
    "lr": 3e-3,
    "clip": 0.5,
    "amp": True,
    "seed": 21,
}

device = xm.xla_device()


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(60, 24, mode="mean")
        self.fc = nn.Linear(24, 3)

    def forward(self, ids):
        return self.fc(self.emb(ids))


def bags(n):
    # class k prefers ids from its own third of the vocabulary
    label = torch.randint(0, 3, (n,))
    ids = torch.randint(0, 20, (n, 12)) + 20 * label.unsqueeze(1)
    noise = torch.randint(0, 60, (n, 12))
    keep = torch.rand(n, 12) < 0.7
    return TensorDataset(torch.where(keep, ids, noise), label)


def fit(config):
    torch.manual_seed(config["seed"])
    xm.set_rng_state(config["seed"])
    loader = DataLoader(
        bags(96), batch_size=config["batch_size"], shuffle=True, drop_last=True
    )
    loader = pl.MpDeviceLoader(loader, device)
    model = Scorer().to(device)
    opt = syncfree.AdamW(model.parameters(), lr=config["lr"])
    scaler = GradScaler(enabled=config["amp"])
    accum = config["accumulation"]
    history = []
    for epoch in range(config["epochs"]):
        for i, batch in enumerate(loader):
            ids, label = batch
            with autocast(enabled=config["amp"]):
                loss = F.cross_entropy(model(ids), label)
                loss = loss / accum
            scaler.scale(loss).backward()
            if (i + 1) % accum == 0:
                xm.all_reduce(
                    "sum", xm._fetch_gradients(opt), scale=1.0 / xm.xrt_world_size()
                )
                scaler.unscale_(opt)
                torch.nn.utils.clip_grad_norm_(model.parameters(), config["clip"])
                scaler.step(opt)
                scaler.update()
                opt.zero_grad(set_to_none=True)
            history.append(loss.detach() * accum)
        mean = torch.stack(history[-len(loader) :]).mean()
        print("epoch", epoch, "loss %.4f" % mean)
    return model


if __name__ == "__main__":
    fit(config)
