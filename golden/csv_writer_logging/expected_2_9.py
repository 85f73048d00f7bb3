import csv

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
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


device = torch_xla.device()
torch.manual_seed(73)
torch_xla.manual_seed(73)
x = torch.randn(96, 6)
y = torch.stack([x[:, 0] + x[:, 1], x[:, 2] * 0.5], dim=1)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
loader = pl.MpDeviceLoader(loader, device)

model = nn.Sequential(nn.Linear(6, 18), nn.Tanh(), nn.Linear(18, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
writer = CsvWriter("metrics.csv")
global_step = 0
running = torch.zeros(2)

for epoch in range(2):
    for x, y in loader:
        pred = model(x)
        first = nn.functional.mse_loss(pred[:, 0], y[:, 0])
        second = nn.functional.mse_loss(pred[:, 1], y[:, 1])
        loss = first + 2 * second
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)

        def log_step(loss, global_step, first, second, first_stack):
            global running
            writer.add_scalar("train/loss", loss, global_step)
            writer.add_scalars("train", {"first": first, "second": second}, global_step)
            running += first_stack.cpu()

        xm.add_step_closure(
            log_step,
            args=(
                loss,
                global_step,
                first,
                second,
                torch.stack([first, second]).detach(),
            ),
        )
        if global_step % 4 == 0:

            def log_step_2(global_step):
                writer.add_histogram("head", model[2].weight, global_step)

            xm.add_step_closure(log_step_2, args=(global_step,))
            grad_norm = sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5

            def log_step_3(grad_norm, global_step):
                writer.add_scalar("train/grad_norm", grad_norm.item(), global_step)

            xm.add_step_closure(log_step_3, args=(grad_norm, global_step))
        global_step += 1
    print(f"epoch {epoch}: {loss:.4f}")

writer.close()
print("mean of both terms", (running / global_step).tolist())
