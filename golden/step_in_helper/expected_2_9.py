import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm


def to_device(batch, device):
    if isinstance(batch, (list, tuple)):
        return [to_device(item, device) for item in batch]
    return batch.to(device, non_blocking=True)


def update(model, optimizer, loss, max_norm):
    optimizer.zero_grad()
    loss.backward()
    xm.reduce_gradients(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return norm


def train_step(model, batch, criterion, optimizer):
    inputs, labels = batch
    logits = model(inputs)
    loss = criterion(logits, labels)
    norm = update(model, optimizer, loss, max_norm=5.0)
    torch_xla.sync()
    return {"loss": loss.item(), "grad_norm": norm.item()}


def make_loader(samples, batch_size, training):
    inputs = torch.rand(samples, 2) * 2 - 1
    labels = (inputs[:, 0] * inputs[:, 1] > 0).long()
    return DataLoader(
        TensorDataset(inputs, labels), batch_size=batch_size, shuffle=training
    )


def make_optimizer(model, name="adamw", lr=0.02):
    if name == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-3)
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), lr=lr)
    raise ValueError(name)


def train(model, loader, criterion, optimizer, device, epochs):
    log = []
    for epoch in range(epochs):
        model.train()
        for batch in loader:
            metrics = train_step(model, to_device(batch, device), criterion, optimizer)
            torch_xla.sync()
            log.append(metrics)
        tail = log[-len(loader) :]
        loss = sum(m["loss"] for m in tail) / len(tail)
        norm = max(m["grad_norm"] for m in tail)
        print(f"epoch={epoch} loss={loss:.4f} max_grad_norm={norm:.4f}")
    return log


if __name__ == "__main__":
    torch.manual_seed(4)
    torch_xla.manual_seed(4)
    device = torch_xla.device()
    loader = make_loader(96, 12, training=True)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
    model = model.to(device)
    optimizer = make_optimizer(model)
    train(model, loader, nn.CrossEntropyLoss(), optimizer, device, epochs=3)
