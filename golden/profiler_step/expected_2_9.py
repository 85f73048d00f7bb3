import torch
import torch.nn as nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

torch.manual_seed(6)
torch_xla.manual_seed(6)
device = torch_xla.device()

features = torch.randn(96, 16)
data = TensorDataset(features, features[:, :4] - features[:, 4:8])
loader = DataLoader(data, batch_size=12, shuffle=True)
loader = pl.MpDeviceLoader(loader, device)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_fn = nn.MSELoss().to(device)

seen = []


def trace_ready(prof):
    # the table itself is too long for the log
    seen.append(len(prof.key_averages()))


with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
    on_trace_ready=trace_ready,
    record_shapes=True,
) as prof:
    for step, batch in enumerate(loader):
        inputs, targets = batch
        with record_function("forward"):
            loss = loss_fn(model(inputs), targets)
        with record_function("backward"):
            optimizer.zero_grad()
            loss.backward()
        with record_function("update"):
            xm.optimizer_step(optimizer)
        prof.step()

        def log_step(step, loss):
            print(f"step {step} loss {loss.item():.5f}")

        xm.add_step_closure(log_step, args=(step, loss))

print("traces:", len(seen))
