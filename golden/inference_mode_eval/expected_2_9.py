import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 16)
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


def get_loaders(**kwargs):
    x = torch.randn(132, 4)
    y = torch.bucketize(x.sum(1), torch.tensor([-1.0, 1.0]))
    train = TensorDataset(x[:96], y[:96])
    test = TensorDataset(x[96:], y[96:])
    return {
        "train": DataLoader(train, shuffle=True, **kwargs),
        "test": DataLoader(test, **kwargs),
    }


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    probs, labels = [], []
    for x, y in loader:
        probs.append(model(x.to(device)).softmax(-1))
        torch_xla.sync()
        labels.append(y)
    probs = torch.cat(probs).cpu()
    labels = torch.cat(labels)
    acc = (probs.argmax(-1) == labels).float().mean()
    nll = -probs[torch.arange(len(labels)), labels].log().mean()
    return acc.item(), nll.item()


def main():
    torch.manual_seed(15)
    torch_xla.manual_seed(15)
    device = torch_xla.device()
    loaders = get_loaders(batch_size=12, num_workers=0)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        model.train()
        for x, y in pl.MpDeviceLoader(loaders["train"], device):
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            xm.optimizer_step(optimizer)
        acc, nll = evaluate(model, loaders["test"], device)
        print(f"epoch {epoch} loss {loss.item():.4f} acc {acc:.3f} nll {nll:.4f}")


if __name__ == "__main__":
    main()
