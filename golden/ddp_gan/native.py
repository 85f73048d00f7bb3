"""Two networks, two optimizers, one process for each GPU."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def make_generator(nz):
    return nn.Sequential(nn.Linear(nz, 32), nn.ReLU(True), nn.Linear(32, 16), nn.Tanh())


def make_discriminator():
    return nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))


def curves():
    t = torch.linspace(0, 3.0, 64).unsqueeze(1)
    return TensorDataset(torch.sin(t + torch.linspace(0, 1.5, 16)))


def ddp_setup(rank: int, world_size: int):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12365"
    torch.cuda.set_device(rank)
    dist.init_process_group(backend="nccl", rank=rank, world_size=world_size)


def run(gpu, opt, world_size):
    ddp_setup(gpu, world_size)
    torch.manual_seed(opt.seed)
    device = torch.device(f"cuda:{gpu}")

    dataset = curves()
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=opt.batch_size, sampler=sampler, drop_last=True)

    netG = DDP(make_generator(opt.nz).to(device), device_ids=[gpu])
    netD = DDP(make_discriminator().to(device), device_ids=[gpu])
    criterion = nn.BCEWithLogitsLoss()
    optimizerD = torch.optim.Adam(netD.parameters(), lr=opt.lr, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=opt.lr, betas=(0.5, 0.999))

    for epoch in range(opt.niter):
        sampler.set_epoch(epoch)
        for i, (real,) in enumerate(loader):
            real = real.to(device)
            noise = torch.randn(real.size(0), opt.nz).to(device)
            fake = netG(noise)

            netD.zero_grad()
            score_real, score_fake = netD(torch.cat([real, fake.detach()])).chunk(2)
            errD = criterion(score_real, torch.ones_like(score_real))
            errD = errD + criterion(score_fake, torch.zeros_like(score_fake))
            errD.backward()
            optimizerD.step()

            netG.zero_grad()
            score = netD(fake)
            errG = criterion(score, torch.ones_like(score))
            errG.backward()
            optimizerG.step()

            if gpu == 0 and i % 2 == 0:
                print(f"[{epoch}][{i}/{len(loader)}] Loss_D: {errD.item():.4f} Loss_G: {errG.item():.4f}")

    if gpu == 0:
        torch.save(netG.module.state_dict(), "netG.pth")
        torch.save(netD.module.state_dict(), "netD.pth")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--nz", type=int, default=6)
    parser.add_argument("--niter", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=9)
    opt = parser.parse_args()
    world_size = torch.cuda.device_count()
    mp.spawn(run, args=(opt, world_size), nprocs=world_size)
