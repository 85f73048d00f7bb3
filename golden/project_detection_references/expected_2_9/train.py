"""Train a small detector head.  torchrun --nproc_per_node=2 train.py"""
import argparse
import os

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

import utils
from dataset import BoxDataset, collate
from engine import evaluate, train_one_epoch
from models import build_model


def get_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", default=4, type=int)
    parser.add_argument("--epochs", default=2, type=int)
    parser.add_argument("--lr", default=0.05, type=float)
    parser.add_argument("--clip-max-norm", default=0.5, type=float)
    parser.add_argument("--resume", default="")
    parser.add_argument("--output-dir", default="out")
    parser.add_argument("--dist-url", default="env://")
    return parser.parse_args()


def main(args):
    if args.device.startswith("cuda"):
        args.device = "xla"
    utils.init_distributed_mode(args)
    device = torch.device(args.device)
    torch.manual_seed(7)
    torch_xla.manual_seed(7)

    model, criterion = build_model()
    model.to(device)
    model_without_ddp = model
    if args.distributed:
        xm.broadcast_master_param(model)
        model_without_ddp = model

    optimizer = torch.optim.SGD(model_without_ddp.parameters(), lr=args.lr, momentum=0.9)
    lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)

    dataset_train, dataset_val = BoxDataset(32, seed=1), BoxDataset(16, seed=2)
    if args.distributed:
        sampler_train = DistributedSampler(dataset_train, num_replicas=xr.world_size(), rank=xr.global_ordinal())
        sampler_val = DistributedSampler(dataset_val, num_replicas=xr.world_size(), rank=xr.global_ordinal(), shuffle=False)
    else:
        sampler_train = RandomSampler(dataset_train)
        sampler_val = SequentialSampler(dataset_val)
    data_loader_train = DataLoader(
        dataset_train, args.batch_size, sampler=sampler_train, drop_last=True, collate_fn=collate, num_workers=0
    )
    data_loader_val = DataLoader(
        dataset_val, args.batch_size, sampler=sampler_val, drop_last=False, collate_fn=collate, num_workers=0
    )

    start_epoch = 0
    if args.resume:
        checkpoint = torch.load(args.resume, map_location="cpu")
        model_without_ddp.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        lr_scheduler.load_state_dict(checkpoint["lr_scheduler"])
        start_epoch = checkpoint["epoch"] + 1

    os.makedirs(args.output_dir, exist_ok=True)
    for epoch in range(start_epoch, args.epochs):
        if args.distributed:
            sampler_train.set_epoch(epoch)
        train_stats = train_one_epoch(
            model, criterion, data_loader_train, optimizer, device, epoch, args.clip_max_norm
        )
        lr_scheduler.step()
        utils.save_on_master(
            {
                "model": model_without_ddp.state_dict(),
                "optimizer": optimizer.state_dict(),
                "lr_scheduler": lr_scheduler.state_dict(),
                "epoch": epoch,
            },
            os.path.join(args.output_dir, "checkpoint.pth"),
        )
        test_stats = evaluate(model, criterion, data_loader_val, device)
        if utils.is_main_process():
            print(epoch, {k: round(v, 4) for k, v in {**train_stats, **test_stats}.items()})


def _mp_fn(index):
    main(get_args())


if __name__ == "__main__":
    torch_xla.launch(_mp_fn)
