import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

from base_trainer import BaseTrainer


class Trainer(BaseTrainer):
    def __init__(
        self,
        model,
        criterion,
        optimizer,
        config,
        device,
        data_loader,
        valid_data_loader=None,
        lr_scheduler=None,
    ):
        super().__init__(model, criterion, optimizer, config)
        self.device = device
        self.data_loader = data_loader
        self.len_epoch = len(self.data_loader)
        self.valid_data_loader = valid_data_loader
        self.do_validation = self.valid_data_loader is not None
        self.lr_scheduler = lr_scheduler
        self.log_step = 2

    def _train_epoch(self, epoch):
        self.model.train()
        total_loss = 0.0
        for batch_idx, (data, target) in enumerate(self.data_loader):
            data, target = data.to(self.device), target.to(self.device)

            self.optimizer.zero_grad()
            output = self.model(data)
            loss = self.criterion(output, target)
            loss.backward()
            xm.optimizer_step(self.optimizer)
            torch_xla.sync()

            total_loss += loss.item()
            if batch_idx % self.log_step == 0:
                print("Train Epoch: {} {} Loss: {:.6f}".format(epoch, batch_idx, loss.item()))
            if batch_idx == self.len_epoch:
                break
        log = {"loss": total_loss / self.len_epoch}

        if self.do_validation:
            val_log = self._valid_epoch(epoch)
            log.update(**{"val_" + k: v for k, v in val_log.items()})
        if self.lr_scheduler is not None:
            self.lr_scheduler.step()
        return log

    def _valid_epoch(self, epoch):
        self.model.eval()
        total = 0.0
        with torch.no_grad():
            valid_data_device_loader = self.valid_data_loader
            if self.device.type == "xla":
                valid_data_device_loader = pl.MpDeviceLoader(self.valid_data_loader, self.device)
            for data, target in valid_data_device_loader:
                total += self.criterion(self.model(data), target)
            total = float(total)
        return {"loss": total / len(self.valid_data_loader)}
