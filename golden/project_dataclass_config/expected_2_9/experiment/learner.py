import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

from experiment.config import Config
from experiment.data import make_loader
from experiment.optimizers import OPTIMIZERS


class Learner:
    def __init__(self, config: Config):
        torch.manual_seed(0)
        torch_xla.manual_seed(0)
        self.config = config
        self.device = torch.device(config.device)
        self.model = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 4)).to(self.device)
        self.optimizer = OPTIMIZERS[config.optimizer](self.model.parameters(), lr=config.lr)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=0.9)
        self.loader = make_loader(config.batch_size)
        self.criterion = nn.CrossEntropyLoss()

    def fit_epoch(self, epoch: int) -> float:
        self.model.train()
        total = 0.0
        for x, y in pl.MpDeviceLoader(self.loader, self.device):
            self.optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device_type="xla", dtype=torch.bfloat16, enabled=self.config.amp):
                loss = self.criterion(self.model(x), y)
            loss.backward()
            xm.reduce_gradients(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip)
            self.optimizer.step()
            total += loss.detach().float()
        total = float(total)
        self.scheduler.step()
        return total / len(self.loader)

    def save(self, path: str) -> None:
        xm.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(),
            },
            path,
        )
