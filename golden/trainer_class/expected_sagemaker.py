import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


class Trainer:
    """Owns the model, the loaders and the loop."""

    def __init__(
        self, model, train_loader, val_loader, lr=0.01, clip=None, device=None
    ):
        self.device = device or xm.xla_device()
        self.model = model.to(self.device)
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, gamma=0.8)
        self.clip = clip
        self.best_acc = -1.0
        self.global_step = 0

    def _move(self, batch):
        return [t.to(self.device, non_blocking=True) for t in batch]

    def training_step(self, batch):
        features, labels = self._move(batch)
        loss = self.criterion(self.model(features), labels)
        self.optimizer.zero_grad()
        loss.backward()
        xm.all_reduce(
            "sum", xm._fetch_gradients(self.optimizer), scale=1.0 / xm.xrt_world_size()
        )
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.global_step += 1
        return loss.detach()

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for batch in pl.MpDeviceLoader(self.train_loader, self.device):
            total += self.training_step(batch)
        total = float(total)
        return total / len(self.train_loader)

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        correct = total = 0
        for batch in pl.MpDeviceLoader(self.val_loader, self.device):
            features, labels = self._move(batch)
            pred = self.model(features).argmax(dim=1)
            correct += (pred == labels).sum()
            total += labels.numel()
        correct = int(correct)
        return correct / total

    def fit(self, epochs):
        for epoch in range(epochs):
            loss = self.train_epoch()
            acc = self.evaluate()
            self.scheduler.step()
            print(f"[{epoch}] step {self.global_step} loss {loss:.4f} acc {acc:.3f}")
            if acc > self.best_acc:
                self.best_acc = acc
                self.save("trainer_best.pt")

    def save(self, path):
        xm.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
            },
            path,
        )

    def load(self, path):
        state = torch.load(path, map_location="cpu")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


def rings(n):
    label = torch.randint(0, 3, (n,))
    radius = 0.5 + label + 0.3 * torch.rand(n)
    angle = 6.283 * torch.rand(n)
    pts = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return TensorDataset(torch.cat([pts, pts**2, pts.prod(1, True)], 1), label)


def main():
    torch.manual_seed(42)
    xm.set_rng_state(42)
    train_loader = DataLoader(rings(128), batch_size=16, shuffle=True)
    val_loader = DataLoader(rings(50), batch_size=16)
    net = nn.Sequential(
        nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3)
    )
    trainer = Trainer(net, train_loader, val_loader, lr=0.05, clip=1.0)
    trainer.fit(epochs=3)
    trainer.load("trainer_best.pt")
    print(f"reloaded accuracy {trainer.evaluate():.3f}")


if __name__ == "__main__":
    main()
