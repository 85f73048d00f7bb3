from dataclasses import dataclass

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch_xla.amp import autocast, syncfree


@dataclass
class Config:
    seed: int = 3
    epochs: int = 3
    batch_size: int = 8
    lr: float = 0.01
    precision: str = "bf16"  # "bf16" or "fp32"
    device: str = "xla"


class Waves(Dataset):
    """Noisy sine waves; the task is to name the frequency."""

    def __init__(self, count, length=32, classes=4):
        self.t = torch.linspace(0, 6.283, length)
        self.labels = [i % classes for i in range(count)]
        self.phase = torch.rand(count)
        self.noise = 0.6 * torch.randn(count, length)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        wave = torch.sin((self.labels[i] + 1) * self.t + self.phase[i]) + self.noise[i]
        return wave.unsqueeze(0), self.labels[i]


class WaveNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, 8, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(8, 8, 5, stride=2, padding=2),
            nn.ReLU(),
        )
        self.head = nn.Linear(8 * 16, classes)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def run(cfg: Config):
    torch.manual_seed(cfg.seed)
    xm.set_rng_state(cfg.seed)
    train_set, valid_set = Waves(96), Waves(40)
    train_loader = DataLoader(train_set, cfg.batch_size, shuffle=True)
    train_loader = pl.MpDeviceLoader(train_loader, xm.xla_device())
    valid_loader = DataLoader(valid_set, cfg.batch_size)
    model = WaveNet().to(cfg.device)
    optimizer = syncfree.SGD(
        model.parameters(), lr=cfg.lr, momentum=0.9, nesterov=True
    )
    use_bf16 = cfg.precision == "bf16"

    for epoch in range(cfg.epochs):
        model.train()
        for step, (waves, labels) in enumerate(train_loader):
            with autocast(
                dtype=torch.bfloat16, enabled=use_bf16
            ):
                logits = model(waves)
                loss = nn.functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
            if step % 6 == 0:

                def log_step(epoch, step, loss):
                    print(f"epoch {epoch} step {step} loss {loss.item():.4f}")

                xm.add_step_closure(log_step, args=(epoch, step, loss))

        model.eval()
        hits = 0
        with torch.no_grad(), autocast(dtype=torch.bfloat16, enabled=use_bf16):
            for waves, labels in valid_loader:
                logits = model(waves.to(cfg.device))

                def log_step_2(labels, logits_argmax):
                    nonlocal hits
                    hits += (logits_argmax.cpu() == labels).sum().item()

                xm.add_step_closure(log_step_2, args=(labels, logits.argmax(-1)))
                xm.mark_step()
        print(f"epoch {epoch} valid accuracy {hits / len(valid_set):.3f}")


if __name__ == "__main__":
    run(Config())
