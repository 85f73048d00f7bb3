import torch
import torch.nn as nn
import torch.optim as optim
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch_xla.amp import syncfree
from tqdm import tqdm

import config
from dataset import get_loaders
from unet import UNET
from utils import check_accuracy, load_checkpoint, save_checkpoint


def train_fn(loader, model, optimizer, loss_fn):
    loop = tqdm(pl.MpDeviceLoader(loader, torch_xla.device()), disable=True)

    for batch_idx, (data, targets) in enumerate(loop):
        targets = targets.float().unsqueeze(1)

        # forward
        with torch.autocast("xla", dtype=torch.bfloat16):
            predictions = model(data)
            loss = loss_fn(predictions, targets)

        # backward
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)

        # update tqdm loop
        def log_step(loss):
            loop.set_postfix(loss=loss.item())

        xm.add_step_closure(log_step, args=(loss,))


def main():
    torch.manual_seed(config.SEED)
    torch_xla.manual_seed(config.SEED)
    model = UNET(in_channels=3, out_channels=1).to(config.DEVICE)
    loss_fn = nn.BCEWithLogitsLoss()
    optimizer = syncfree.Adam(model.parameters(), lr=config.LEARNING_RATE)
    train_loader, val_loader = get_loaders(config.BATCH_SIZE, config.NUM_WORKERS, config.PIN_MEMORY)

    if config.LOAD_MODEL:
        load_checkpoint(torch.load(config.CHECKPOINT, map_location="cpu"), model)

    for epoch in range(config.NUM_EPOCHS):
        train_fn(train_loader, model, optimizer, loss_fn)
        save_checkpoint({"state_dict": model.state_dict(), "optimizer": optimizer.state_dict()})
        check_accuracy(val_loader, model, device=config.DEVICE)


if __name__ == "__main__":
    main()
