import torch
import torch.nn as nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
device = torch.device("cuda")

features = torch.randn(96, 16)
data = TensorDataset(features, features[:, :4] - features[:, 4:8])
loader = DataLoader(data, batch_size=12, shuffle=True, pin_memory=True)
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
        inputs, targets = (part.to(device, non_blocking=True) for part in batch)
        with record_function("forward"):
            loss = loss_fn(model(inputs), targets)
        with record_function("backward"):
            optimizer.zero_grad()
            loss.backward()
        with record_function("update"):
            optimizer.step()
        prof.step()
        print(f"step {step} loss {loss.item():.5f}")

print("traces:", len(seen))
