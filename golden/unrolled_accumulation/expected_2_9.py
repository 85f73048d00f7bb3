import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

torch.manual_seed(44)
torch_xla.manual_seed(44)
device = torch_xla.device()

labelled = TensorDataset(torch.randn(60, 8), torch.randint(0, 3, (60,)))
labelled.tensors[0][:, 0] += labelled.tensors[1] * 1.5
unlabelled = TensorDataset(torch.randn(90, 8))
sup_loader = DataLoader(labelled, batch_size=6, shuffle=True, drop_last=True)
sup_device_loader = pl.MpDeviceLoader(sup_loader, device)
unsup_loader = DataLoader(unlabelled, batch_size=9, shuffle=True, drop_last=True)

model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()


def consistency(model, x):
    clean = model(x).softmax(-1).detach()
    noisy = model(x + 0.1 * torch.randn_like(x)).log_softmax(-1)
    return -(clean * noisy).sum(-1).mean()


for epoch in range(2):
    unsup_iter = iter(unsup_loader)
    n_steps = min(len(sup_loader), len(unsup_loader))
    for step, (x, y) in zip(range(n_steps), sup_device_loader):
        optimizer.zero_grad()

        # first half: labelled batch
        sup_loss = criterion(model(x), y)
        sup_loss.backward()

        # second half: unlabelled batch, gradients add up
        try:
            (u,) = next(unsup_iter)
        except StopIteration:
            unsup_iter = iter(unsup_loader)
            (u,) = next(unsup_iter)
        unsup_loss = 0.3 * consistency(model, u.to(device))
        unsup_loss.backward()

        xm.optimizer_step(optimizer)
        if step % 3 == 0:

            def log_step(epoch, step, sup_loss, unsup_loss):
                print(
                    f"{epoch}:{step} supervised {sup_loss.item():.4f} "
                    f"consistency {unsup_loss.item():.4f}"
                )

            xm.add_step_closure(log_step, args=(epoch, step, sup_loss, unsup_loss))

# both loaders together, in one pass over pairs
agree = 0
with torch.no_grad():
    for (x, _), (u,) in zip(sup_loader, unsup_loader):
        both = torch.cat([x, u]).to(device)
        agree += model(both).softmax(-1).amax(-1).gt(0.5).sum()
        torch_xla.sync()
print("confident predictions", int(agree))
