"""Accuracy of a saved model on the validation pictures."""
import torch

import config
from dataset import get_loaders
from unet import UNET
from utils import check_accuracy, load_checkpoint

if __name__ == "__main__":
    model = UNET(in_channels=3, out_channels=1).to(config.DEVICE)
    load_checkpoint(torch.load(config.CHECKPOINT, map_location="cpu"), model)
    _, val_loader = get_loaders(config.BATCH_SIZE, config.NUM_WORKERS, config.PIN_MEMORY)
    check_accuracy(val_loader, model, device=config.DEVICE)
