import torch
import torch.nn.functional as F


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
    optimizers["shared"].step()
    optimizers[task].step()
    return loss


@torch.no_grad()
def evaluate_task(model, task, loader, device):
    model.eval()
    total = 0.0
    for batch in loader:
        x, target = [part.to(device) for part in batch]
        total += loss_of(task, model(x, task), target).item()
    return total / len(loader)
