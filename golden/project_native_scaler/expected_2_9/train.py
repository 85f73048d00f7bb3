import argparse
import json
import os

import torch
import torch_xla
from torch_xla.amp import syncfree

import models
import util.misc as misc
from data import build_loader
from engine_pretrain import train_one_epoch
from util.misc import NativeScalerWithGradNormCount as NativeScaler


def get_args_parser():
    parser = argparse.ArgumentParser("pre-training", add_help=False)
    parser.add_argument("--batch_size", default=8, type=int)
    parser.add_argument("--epochs", default=2, type=int)
    parser.add_argument("--accum_iter", default=2, type=int)
    parser.add_argument("--blr", type=float, default=1e-2)
    parser.add_argument("--min_lr", type=float, default=0.0)
    parser.add_argument("--warmup_epochs", type=int, default=1)
    parser.add_argument("--clip_grad", type=float, default=1.0)
    parser.add_argument("--output_dir", default="./output_dir")
    parser.add_argument("--device", default="cuda", help="device to use for training / testing")
    parser.add_argument("--seed", default=0, type=int)
    return parser


def main(args):
    if args.device.startswith("cuda"):
        args.device = "xla"
    device = torch.device(args.device)

    # fix the seed for reproducibility
    torch.manual_seed(args.seed)
    torch_xla.manual_seed(args.seed)

    data_loader_train = build_loader(args.batch_size)
    model = models.MaskedAutoencoder(dim=16)
    model.to(device)
    print("Model = %s" % str(model))

    eff_batch_size = args.batch_size * args.accum_iter
    args.lr = args.blr * eff_batch_size / 16
    print("actual lr: %.2e" % args.lr)

    optimizer = syncfree.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95))
    loss_scaler = NativeScaler()

    os.makedirs(args.output_dir, exist_ok=True)
    for epoch in range(args.epochs):
        train_stats = train_one_epoch(
            model, data_loader_train, optimizer, device, epoch, loss_scaler, args=args
        )
        misc.save_model(args, epoch, model, optimizer, loss_scaler)
        with open(os.path.join(args.output_dir, "log.txt"), mode="a", encoding="utf-8") as f:
            f.write(json.dumps({"epoch": epoch, **train_stats}) + "\n")


if __name__ == "__main__":
    main(get_args_parser().parse_args())
