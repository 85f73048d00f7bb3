import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch_xla.amp import GradScaler, syncfree

NOISE, BATCH, STEPS_LOG = 6, 12, 4


def train_fn(disc, gen, loader, opt_disc, opt_gen, l1, bce, d_scaler, g_scaler):
    for idx, (x, y) in enumerate(loader):
        # Train Discriminator
        with torch.autocast("xla", dtype=torch.bfloat16):
            y_fake = gen(x)
            d_real = disc(torch.cat([x, y], 1))
            d_fake = disc(torch.cat([x, y_fake.detach()], 1))
            d_loss = bce(d_real, torch.ones_like(d_real)) + bce(
                d_fake, torch.zeros_like(d_fake)
            )
            d_loss = d_loss / 2
        opt_disc.zero_grad()
        d_scaler.scale(d_loss).backward()
        xm.reduce_gradients(opt_disc)
        d_scaler.step(opt_disc)
        d_scaler.update()

        # Train generator
        with torch.autocast("xla", dtype=torch.bfloat16):
            d_fake = disc(torch.cat([x, y_fake], 1))
            g_loss = bce(d_fake, torch.ones_like(d_fake)) + 5 * l1(y_fake, y)
        opt_gen.zero_grad()
        g_scaler.scale(g_loss).backward()
        xm.reduce_gradients(opt_gen)
        g_scaler.step(opt_gen)
        g_scaler.update()

        if idx % STEPS_LOG == 0:

            def log_step(idx, d_loss, g_loss):
                print(
                    "batch",
                    idx,
                    "D %.4f" % d_loss.item(),
                    "G %.4f" % g_loss.item(),
                    sep="\t",
                )

            xm.add_step_closure(log_step, args=(idx, d_loss, g_loss))


def save_checkpoint(model, optimizer, filename):
    print("=> Saving checkpoint")
    xm.save(
        {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict()},
        filename,
    )


def main():
    torch.manual_seed(83)
    xm.set_rng_state(83)
    x = torch.randn(96, NOISE)
    y = torch.stack([x.sum(1), x.abs().mean(1)], dim=1)
    device = xm.xla_device()
    loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)
    loader = pl.MpDeviceLoader(loader, device)
    disc = nn.Sequential(nn.Linear(NOISE + 2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    gen = nn.Sequential(nn.Linear(NOISE, 32), nn.ReLU(), nn.Linear(32, 2))
    disc, gen = disc.to(device), gen.to(device)
    opt_disc = syncfree.Adam(disc.parameters(), lr=2e-3, betas=(0.5, 0.999))
    opt_gen = syncfree.Adam(gen.parameters(), lr=2e-3, betas=(0.5, 0.999))
    bce, l1 = nn.BCEWithLogitsLoss(), nn.L1Loss()
    g_scaler = GradScaler()
    d_scaler = GradScaler()
    for epoch in range(2):
        train_fn(disc, gen, loader, opt_disc, opt_gen, l1, bce, d_scaler, g_scaler)
    save_checkpoint(gen, opt_gen, "gen.pth.tar")
    save_checkpoint(disc, opt_disc, "disc.pth.tar")


if __name__ == "__main__":
    main()
