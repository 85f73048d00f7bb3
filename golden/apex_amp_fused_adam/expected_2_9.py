import argparse

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset
from torch_xla.amp import syncfree

parser = argparse.ArgumentParser()
parser.add_argument("--opt-level", default="O1")
parser.add_argument("--loss-scale", default=None)
parser.add_argument("--max-grad-norm", type=float, default=1.0)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

torch.manual_seed(0)
torch_xla.manual_seed(0)
device = torch_xla.device()
x = torch.randn(256, 20)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
loader = pl.MpDeviceLoader(loader, device)

model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2)).to(device)
optimizer = syncfree.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
criterion = nn.CrossEntropyLoss()

for epoch in range(args.epochs):
    for step, batch in enumerate(loader):
        x, y = tuple(batch)
        with torch.autocast(
            "xla", dtype=torch.bfloat16, enabled=args.opt_level != "O0"
        ):
            loss = criterion(model(x), y)
        loss.backward()
        xm.reduce_gradients(optimizer)
        torch.nn.utils.clip_grad_norm_(
            [p for group in optimizer.param_groups for p in group["params"]],
            args.max_grad_norm,
        )
        optimizer.step()
        model.zero_grad()
        if step % 4 == 0:

            def log_step(epoch, step, loss):
                print(epoch, step, loss.item())

            xm.add_step_closure(log_step, args=(epoch, step, loss))
    xm.save({"model": model.state_dict()}, "apex.pt")
