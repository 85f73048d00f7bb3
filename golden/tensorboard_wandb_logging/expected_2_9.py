import argparse
import os
import time

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import wandb
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter


def get_parser():
    p = argparse.ArgumentParser()
    p.add_argument("--logdir", default="runs/a")
    p.add_argument("--project", default="demo")
    p.add_argument("--no-wandb", dest="wandb", action="store_false")
    p.add_argument("--log-every", type=int, default=20)
    p.add_argument("--device", default="cuda")
    return p


@torch.no_grad()
def validate(net, loader, device, board, step):
    net.eval()
    losses, outputs = [], []
    for xs, ys in loader:
        out = net(xs)
        losses.append(nn.functional.mse_loss(out, ys))
        outputs.append(out)
    net.train()
    mean = torch.stack(losses).mean()
    board.add_scalar("val/loss", mean, step)
    board.add_histogram("val/output", torch.cat(outputs), step)
    return mean.item()


def main():
    args = get_parser().parse_args()
    if args.device.startswith("cuda"):
        args.device = "xla"
    os.makedirs(args.logdir, exist_ok=True)
    torch.manual_seed(0)
    torch_xla.manual_seed(0)
    xs = torch.randn(512, 10)
    ys = xs.sum(1, keepdim=True)
    feed = DataLoader(TensorDataset(xs, ys), batch_size=16, shuffle=True)
    hold = DataLoader(TensorDataset(xs[:100], ys[:100]), batch_size=32)
    if args.device == "xla":
        hold = pl.MpDeviceLoader(hold, args.device)
    net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1)).to(args.device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)

    board = SummaryWriter(args.logdir)
    board.add_graph(net, torch.zeros(1, 10, device=args.device))
    if args.wandb:
        wandb.init(project=args.project, config=vars(args))
        wandb.watch(net, log="gradients", log_freq=100)

    k = 0
    for epoch in range(5):
        tic = time.time()
        feed_device_loader = feed
        if args.device == "xla":
            feed_device_loader = pl.MpDeviceLoader(feed, args.device)
        for xs, ys in feed_device_loader:
            loss = nn.functional.mse_loss(net(xs), ys)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            if k % args.log_every == 0:
                torch_xla.sync()
                board.add_scalar("train/loss", loss, k)
                board.add_histogram("head", net[2].weight, k)
                if args.wandb:
                    wandb.log(
                        {"loss": loss.item(), "lr": opt.param_groups[0]["lr"]}, step=k
                    )
            k += 1
        val = validate(net, hold, args.device, board, k)
        rate = len(feed.dataset) / (time.time() - tic)
        print(f"epoch {epoch} val {val:.4f} {rate:.0f} items/s")
        board.add_scalars("speed", {"items": rate}, k)
    board.flush()
    board.close()
    if args.wandb:
        wandb.save(os.path.join(args.logdir, "*"))
        wandb.finish()


if __name__ == "__main__":
    main()
