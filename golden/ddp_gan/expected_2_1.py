"""Two networks, two optimizers, one process for each GPU."""

import argparse

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.runtime as xr
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def make_generator(nz):
    return nn.Sequential(nn.Linear(nz, 32), nn.ReLU(True), nn.Linear(32, 16), nn.Tanh())


def make_discriminator():
    return nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))


def curves():
    t = torch.linspace(0, 3.0, 64).unsqueeze(1)
    return TensorDataset(torch.sin(t + torch.linspace(0, 1.5, 16)))


def run(gpu, opt):
    torch.manual_seed(opt.seed)
    xm.set_rng_state(opt.seed)
    device = xm.xla_device()

    dataset = curves()
    sampler = DistributedSampler(dataset, num_replicas=xr.world_size(), rank=xr.global_ordinal(), shuffle=True)
    loader = DataLoader(dataset, batch_size=opt.batch_size, sampler=sampler, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)

    netG = make_generator(opt.nz).to(device)
    xm.broadcast_master_param(netG)
    netD = make_discriminator().to(device)
    xm.broadcast_master_param(netD)
    criterion = nn.BCEWithLogitsLoss()
    optimizerD = torch.optim.Adam(netD.parameters(), lr=opt.lr, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=opt.lr, betas=(0.5, 0.999))

    for epoch in range(opt.niter):
        sampler.set_epoch(epoch)
        for i, (real,) in enumerate(loader):
            noise = torch.randn(real.size(0), opt.nz).to(device)
            fake = netG(noise)

            netD.zero_grad()
            score_real, score_fake = netD(torch.cat([real, fake.detach()])).chunk(2)
            errD = criterion(score_real, torch.ones_like(score_real))
            errD = errD + criterion(score_fake, torch.zeros_like(score_fake))
            errD.backward()
            xm.optimizer_step(optimizerD)

            netG.zero_grad()
            score = netD(fake)
            errG = criterion(score, torch.ones_like(score))
            errG.backward()
            xm.optimizer_step(optimizerG)

            if i % 2 == 0:

                def log_step(epoch, i, errD, errG):
                    if gpu == 0:
                        print(
                            f"[{epoch}][{i}/{len(loader)}] Loss_D: {errD.item():.4f} Loss_G: {errG.item():.4f}"
                        )

                xm.add_step_closure(log_step, args=(epoch, i, errD, errG))

    xm.save(netG.state_dict(), "netG.pth")
    xm.save(netD.state_dict(), "netD.pth")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--nz", type=int, default=6)
    parser.add_argument("--niter", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=9)
    opt = parser.parse_args()
    xmp.spawn(run, args=(opt,))
