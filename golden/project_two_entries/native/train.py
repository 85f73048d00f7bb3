import torch
import torch.nn as nn
import torch.optim as optim
from tqdm import tqdm

import config
from dataset import get_loaders
from unet import UNET
from utils import check_accuracy, load_checkpoint, save_checkpoint


def train_fn(loader, model, optimizer, loss_fn, scaler):
    loop = tqdm(loader, disable=True)

    for batch_idx, (data, targets) in enumerate(loop):
        data = data.to(device=config.DEVICE)
        targets = targets.float().unsqueeze(1).to(device=config.DEVICE)

        # forward
        with torch.cuda.amp.autocast():
            predictions = model(data)
            loss = loss_fn(predictions, targets)

        # backward
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

        # update tqdm loop
        loop.set_postfix(loss=loss.item())


def main():
    torch.manual_seed(config.SEED)
    model = UNET(in_channels=3, out_channels=1).to(config.DEVICE)
    loss_fn = nn.BCEWithLogitsLoss()
    optimizer = optim.Adam(model.parameters(), lr=config.LEARNING_RATE)
    train_loader, val_loader = get_loaders(config.BATCH_SIZE, config.NUM_WORKERS, config.PIN_MEMORY)

    if config.LOAD_MODEL:
        load_checkpoint(torch.load(config.CHECKPOINT), model)

    scaler = torch.cuda.amp.GradScaler()
    for epoch in range(config.NUM_EPOCHS):
        train_fn(train_loader, model, optimizer, loss_fn, scaler)
        save_checkpoint({"state_dict": model.state_dict(), "optimizer": optimizer.state_dict()})
        check_accuracy(val_loader, model, device=config.DEVICE)


if __name__ == "__main__":
    main()
