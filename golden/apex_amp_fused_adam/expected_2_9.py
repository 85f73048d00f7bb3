import argparse

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from apex import amp
from torch.utils.data import DataLoader, TensorDataset

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
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
model, optimizer = amp.initialize(
    model, optimizer, opt_level=args.opt_level, loss_scale=args.loss_scale
)
criterion = nn.CrossEntropyLoss()

for epoch in range(args.epochs):
    for step, batch in enumerate(loader):
        x, y = tuple(batch)
        loss = criterion(model(x), y)
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.max_grad_norm)
        optimizer.step()
        model.zero_grad()
        if step % 4 == 0:

            def log_step(epoch, step, loss):
                print(epoch, step, loss.item())

            xm.add_step_closure(log_step, args=(epoch, step, loss))
    xm.save({"model": model.state_dict(), "amp": amp.state_dict()}, "apex.pt")
