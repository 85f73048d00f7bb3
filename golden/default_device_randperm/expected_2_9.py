import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

device = torch_xla.device()
torch.manual_seed(9)
torch_xla.manual_seed(9)

# the data are drawn on the host, everything later lives on the device
host = torch.Generator().manual_seed(9)
inputs = torch.randn(120, 6, generator=host)
targets = torch.stack([inputs[:, :3].sum(1), inputs[:, 3:].prod(1)], dim=1)

torch.set_default_device(device)
inputs, targets = inputs.to(device), targets.to(device)

model = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, capturable=True)
weights = torch.tensor([1.0, 0.5])

batch_size = 12
for epoch in range(3):
    order = torch.randperm(inputs.size(0))
    epoch_loss = torch.zeros(())
    for start in range(0, inputs.size(0), batch_size):
        index = order[start : start + batch_size]
        pred = model(inputs[index])
        loss = ((pred - targets[index]) ** 2 * weights).mean()
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync()
        epoch_loss += loss.detach()
    steps = inputs.size(0) // batch_size
    print(f"epoch {epoch} loss {epoch_loss.item() / steps:.4f}")

with torch.no_grad():
    probe = torch.eye(6)
    print(model(probe).round(decimals=2).tolist()[0])
