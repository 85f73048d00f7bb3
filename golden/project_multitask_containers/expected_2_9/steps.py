import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


def loss_of(task, output, target):
    if task == "classify":
        return F.cross_entropy(output, target)
    return F.mse_loss(output, target)


def train_step(model, optimizers, task, batch, device):
    model.train()
    x, target = [part.to(device) for part in batch]
    for optimizer in (optimizers["shared"], optimizers[task]):
        optimizer.zero_grad()
    loss = loss_of(task, model(x, task), target)
    loss.backward()
    xm.optimizer_step(optimizers["shared"])
    xm.optimizer_step(optimizers[task])
    return loss


@torch.no_grad()
def evaluate_task(model, task, loader, device):
    model.eval()
    total = 0.0
    for batch in pl.MpDeviceLoader(loader, device):
        x, target = batch
        total += loss_of(task, model(x, task), target)
    total = float(total)
    return total / len(loader)
