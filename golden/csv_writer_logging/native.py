import csv

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class CsvWriter:
    """Has the methods of a TensorBoard writer, writes lines of text."""

    def __init__(self, path):
        self.file = open(path, "w", newline="")
        self.rows = csv.writer(self.file)

    def add_scalar(self, tag, value, step):
        self.rows.writerow([step, tag, f"{float(value):.6f}"])

    def add_scalars(self, tag, values, step):
        for name, value in values.items():
            self.add_scalar(f"{tag}/{name}", value, step)

    def add_histogram(self, tag, values, step):
        low, high = values.min().item(), values.max().item()
        self.rows.writerow([step, tag, f"{low:.6f}:{high:.6f}"])

    def close(self):
        self.file.close()


device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
torch.manual_seed(73)
x = torch.randn(96, 6)
y = torch.stack([x[:, 0] + x[:, 1], x[:, 2] * 0.5], dim=1)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)

model = nn.Sequential(nn.Linear(6, 18), nn.Tanh(), nn.Linear(18, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
writer = CsvWriter("metrics.csv")
global_step = 0
running = torch.zeros(2)

for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        pred = model(x)
        first = nn.functional.mse_loss(pred[:, 0], y[:, 0])
        second = nn.functional.mse_loss(pred[:, 1], y[:, 1])
        loss = first + 2 * second
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        writer.add_scalar("train/loss", loss, global_step)
        writer.add_scalars("train", {"first": first, "second": second}, global_step)
        running += torch.stack([first, second]).detach().cpu()
        if global_step % 4 == 0:
            writer.add_histogram("head", model[2].weight, global_step)
            grad_norm = sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5
            writer.add_scalar("train/grad_norm", grad_norm.item(), global_step)
        global_step += 1
    print(f"epoch {epoch}: {loss:.4f}")

writer.close()
print("mean of both terms", (running / global_step).tolist())
