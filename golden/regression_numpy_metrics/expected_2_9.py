import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset


def r2_score(y_true, y_pred):
    ss_res = np.sum((y_true - y_pred) ** 2)
    ss_tot = np.sum((y_true - y_true.mean()) ** 2)
    return 1 - ss_res / ss_tot


def load_houses(n=170, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 8)).astype(np.float32)
    y = 2 * x[:, 0] - x[:, 1] + 0.5 * x[:, 2] ** 2 + 0.1 * rng.normal(size=n)
    y = y.astype(np.float32)[:, None]
    x = (x - x.mean(0)) / x.std(0)
    return x, y


def numpy_loader(x, y, batch_size, shuffle):
    dataset = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle)


def run_epoch(model, loader, device, loss_fn, optimizer=None):
    """Trains when an optimizer is given, evaluates otherwise."""
    training = optimizer is not None
    model.train(training)
    preds, truth, losses = [], [], []
    with torch.set_grad_enabled(training):
        for inputs, labels in loader:
            truth.append(labels.numpy())
            inputs = inputs.to(device)
            labels = labels.to(device)
            outputs = model(inputs)
            loss = loss_fn(outputs, labels)
            if training:
                optimizer.zero_grad()
                loss.backward()
                xm.optimizer_step(optimizer)
            torch_xla.sync()
            preds.append(outputs.detach().cpu().numpy())
            losses.append(loss.item())
    preds = np.concatenate(preds)
    truth = np.concatenate(truth)
    return float(np.mean(losses)), float(r2_score(truth, preds))


def main():
    torch.manual_seed(10)
    torch_xla.manual_seed(10)
    device = torch_xla.device()
    x, y = load_houses()
    train_loader = numpy_loader(x[:120], y[:120], 12, True)
    valid_loader = numpy_loader(x[120:], y[120:], 12, False)

    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    loss_fn = nn.MSELoss()

    for epoch in range(3):
        train_loss, train_r2 = run_epoch(
            model, train_loader, device, loss_fn, optimizer
        )
        valid_loss, valid_r2 = run_epoch(model, valid_loader, device, loss_fn)
        scheduler.step(valid_loss)
        print(
            f"{epoch}: train {train_loss:.4f} (r2 {train_r2:.3f}), "
            f"valid {valid_loss:.4f} (r2 {valid_r2:.3f})"
        )


if __name__ == "__main__":
    main()
