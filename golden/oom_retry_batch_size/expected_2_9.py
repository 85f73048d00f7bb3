import logging

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
log = logging.getLogger("train")


def is_oom(error):
    return isinstance(error, torch.cuda.OutOfMemoryError) or (
        "CUDA out of memory" in str(error)
    )


def run(batch_size, epochs=2):
    torch.manual_seed(7)
    torch_xla.manual_seed(7)
    device = torch_xla.device()
    x = torch.randn(128, 10)
    y = (x[:, 0] > x[:, 1]).float()
    loader = DataLoader(
        TensorDataset(x, y),
        batch_size=batch_size,
        shuffle=True,
    )
    loader = pl.MpDeviceLoader(loader, device)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    loss_fn = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(1.2, device=device))
    for epoch in range(epochs):
        for i, (x, y) in enumerate(loader):
            loss = loss_fn(model(x).squeeze(-1), y)
            optimizer.zero_grad()
            loss.backward()
            xm.optimizer_step(optimizer)
            if i % 4 == 0:

                def log_step(epoch, i, loss):
                    log.info("epoch %d batch %d loss %.4f", epoch, i, loss)

                xm.add_step_closure(log_step, args=(epoch, i, loss))
    return loss.item()


def main():
    batch_size = 16
    while batch_size >= 1:
        try:
            final = run(batch_size)
            break
        except RuntimeError as error:
            if not is_oom(error):
                raise
            log.warning("batch size %d does not fit, halving it", batch_size)
            batch_size //= 2
    print(f"trained with batch size {batch_size}, final loss {final:.4f}")


if __name__ == "__main__":
    main()
