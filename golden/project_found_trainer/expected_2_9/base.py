import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader

from criterion import Criterion
from measures import MEASURES


class Trainer:
    def __init__(self, device, terms, lr):
        model = self.build_model().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        criterion = Criterion(terms)
        self.__dict__.update(locals())

    def build_model(self):
        raise NotImplementedError

    def build_dataset(self):
        raise NotImplementedError

    def train_step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(x), y)
        loss.backward()
        xm.optimizer_step(self.optimizer)
        return loss

    def run(self, epochs):
        loader = DataLoader(self.build_dataset(), batch_size=8, shuffle=True, drop_last=True)
        loader = pl.MpDeviceLoader(loader, torch_xla.device())
        for self.epoch in range(epochs):
            for x, y in loader:
                loss = self.train_step(x, y)
            print(f"epoch {self.epoch}: loss {loss.item():.4f}")
        self.measure("mean_error", x, y)
        xm.save(self.model.state_dict(), "found.pt")

    @torch.no_grad()
    def measure(self, name, x, y):
        given = {"predicted": self.model(x.to(self.device)), "target": y.to(self.device)}
        print(f"{name}: {MEASURES.get(name)(**given).item():.4f}")
