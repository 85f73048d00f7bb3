import torch
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
        self.optimizer.step()
        return loss

    def run(self, epochs):
        loader = DataLoader(self.build_dataset(), batch_size=8, shuffle=True, drop_last=True)
        for self.epoch in range(epochs):
            for x, y in loader:
                loss = self.train_step(x.to(self.device), y.to(self.device))
            print(f"epoch {self.epoch}: loss {loss.item():.4f}")
        self.measure("mean_error", x, y)
        torch.save(self.model.state_dict(), "found.pt")

    @torch.no_grad()
    def measure(self, name, x, y):
        given = {"predicted": self.model(x.to(self.device)), "target": y.to(self.device)}
        print(f"{name}: {MEASURES.get(name)(**given).item():.4f}")
