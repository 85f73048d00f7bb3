import torch
import torch_xla

import model.loss as module_loss
from config import CONFIG
from data_loaders import SyntheticDataLoader
from model.net import LeNet
from trainer import Trainer
from utils import prepare_device

SEED = 123
torch.manual_seed(SEED)
torch_xla.manual_seed(SEED)


def main(config):
    data_loader = SyntheticDataLoader(**config["data_loader"])
    valid_data_loader = data_loader.split_validation()

    model = LeNet(**config["arch"])
    print(model)

    # prepare for (multi-device) GPU training
    device, device_ids = prepare_device(config["n_gpu"])
    model = model.to(device)

    criterion = getattr(module_loss, config["loss"])
    trainable_params = filter(lambda p: p.requires_grad, model.parameters())
    optimizer = torch.optim.Adam(trainable_params, lr=config["lr"])
    lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.9)

    trainer = Trainer(
        model,
        criterion,
        optimizer,
        config=config,
        device=device,
        data_loader=data_loader,
        valid_data_loader=valid_data_loader,
        lr_scheduler=lr_scheduler,
    )
    trainer.train()


if __name__ == "__main__":
    main(CONFIG)
