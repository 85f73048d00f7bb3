from abc import abstractmethod
from pathlib import Path

import torch
import torch_xla.core.xla_model as xm


class BaseTrainer:
    """Base class for all trainers"""

    def __init__(self, model, criterion, optimizer, config):
        self.config = config
        self.model = model
        self.criterion = criterion
        self.optimizer = optimizer

        cfg_trainer = config["trainer"]
        self.epochs = cfg_trainer["epochs"]
        self.monitor = cfg_trainer["monitor"]
        self.early_stop = cfg_trainer["early_stop"]
        self.best = float("inf")
        self.start_epoch = 1
        self.checkpoint_dir = Path(cfg_trainer["save_dir"])
        self.checkpoint_dir.mkdir(exist_ok=True)

    @abstractmethod
    def _train_epoch(self, epoch):
        """Training logic for an epoch"""
        raise NotImplementedError

    def train(self):
        not_improved_count = 0
        for epoch in range(self.start_epoch, self.epochs + 1):
            result = self._train_epoch(epoch)
            for key, value in {"epoch": epoch, **result}.items():
                print("    {:15s}: {:.5f}".format(str(key), value))

            best = False
            if result[self.monitor] <= self.best:
                self.best = result[self.monitor]
                not_improved_count = 0
                best = True
            else:
                not_improved_count += 1
            if not_improved_count > self.early_stop:
                print("Training stops.")
                break
            self._save_checkpoint(epoch, save_best=best)

    def _save_checkpoint(self, epoch, save_best=False):
        state = {
            "arch": type(self.model).__name__,
            "epoch": epoch,
            "state_dict": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "monitor_best": self.best,
        }
        xm.save(state, str(self.checkpoint_dir / "checkpoint.pth"))
        if save_best:
            xm.save(state, str(self.checkpoint_dir / "model_best.pth"))

    def _resume_checkpoint(self, resume_path):
        checkpoint = torch.load(resume_path, map_location="cpu")
        self.start_epoch = checkpoint["epoch"] + 1
        self.best = checkpoint["monitor_best"]
        self.model.load_state_dict(checkpoint["state_dict"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
