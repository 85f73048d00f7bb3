# One GPU, everything at the top level.
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

epochs = 2
lr = 0.05
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(17)

inputs = torch.randn(96, 7, generator=torch.Generator().manual_seed(1))
labels = (inputs[:, :3].sum(1) > inputs[:, 3:6].sum(1)).long()
loader = DataLoader(TensorDataset(inputs, labels), batch_size=8, drop_last=True)


class Scorer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(7, width)
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        return self.head(F.silu(self.body(x)))


model = Scorer(20).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
history = []


def fit(batch, target):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(batch), target)
    loss.backward()
    optimizer.step()
    return loss


for epoch in range(epochs):
    for batch, target in loader:
        batch, target = batch.to(device), target.to(device)
        loss = fit(batch, target)
    history.append(loss.item())

torch.save({"model": model.state_dict(), "epochs": epochs}, "scorer.pt")
