import torch
import torch.nn as nn

from experiment.config import Config
from experiment.data import make_loader
from experiment.optimizers import OPTIMIZERS


class Learner:
    def __init__(self, config: Config):
        torch.manual_seed(0)
        self.config = config
        self.device = torch.device(config.device)
        self.model = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 4)).to(self.device)
        self.optimizer = OPTIMIZERS[config.optimizer](self.model.parameters(), lr=config.lr)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=0.9)
        self.scaler = torch.amp.GradScaler("cuda", enabled=config.amp)
        self.loader = make_loader(config.batch_size)
        self.criterion = nn.CrossEntropyLoss()

    def fit_epoch(self, epoch: int) -> float:
        self.model.train()
        total = 0.0
        for x, y in self.loader:
            x = x.to(self.device, non_blocking=True)
            y = y.to(self.device, non_blocking=True)
            self.optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device_type="cuda", dtype=torch.float16, enabled=self.config.amp):
                loss = self.criterion(self.model(x), y)
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            total += loss.item()
        self.scheduler.step()
        return total / len(self.loader)

    def save(self, path: str) -> None:
        torch.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(),
            },
            path,
        )
