import torch
import torch.nn as nn
import torch.optim as optim

dev0, dev1 = torch.device("cuda:0"), torch.device("cuda:1")


class Split(nn.Module):
    """First half on one card, second half on the other."""

    def __init__(self):
        super().__init__()
        self.net1 = nn.Sequential(nn.Linear(10, 256), nn.ReLU()).to("cuda:0")
        self.net2 = nn.Linear(256, 5).to("cuda:1")

    def forward(self, x):
        x = self.net1(x.to("cuda:0"))
        return self.net2(x.to("cuda:1"))


if torch.cuda.device_count() < 2:
    raise SystemExit("needs two GPUs")

torch.manual_seed(0)
model = Split()
loss_fn = nn.MSELoss()
optimizer = optim.SGD(model.parameters(), lr=0.001)

for step in range(20):
    optimizer.zero_grad()
    outputs = model(torch.randn(20, 10))
    labels = torch.randn(20, 5).to("cuda:1")
    loss = loss_fn(outputs, labels)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
