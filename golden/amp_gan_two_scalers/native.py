import torch
import torch.nn as nn
from torch.cuda import amp
from torch.utils.data import DataLoader, TensorDataset

NOISE, BATCH, STEPS_LOG = 6, 12, 4


def train_fn(disc, gen, loader, opt_disc, opt_gen, l1, bce, d_scaler, g_scaler):
    for idx, (x, y) in enumerate(loader):
        x = x.cuda()
        y = y.cuda()

        # Train Discriminator
        with amp.autocast():
            y_fake = gen(x)
            d_real = disc(torch.cat([x, y], 1))
            d_fake = disc(torch.cat([x, y_fake.detach()], 1))
            d_loss = bce(d_real, torch.ones_like(d_real)) + bce(
                d_fake, torch.zeros_like(d_fake)
            )
            d_loss = d_loss / 2
        opt_disc.zero_grad()
        d_scaler.scale(d_loss).backward()
        d_scaler.step(opt_disc)
        d_scaler.update()

        # Train generator
        with amp.autocast():
            d_fake = disc(torch.cat([x, y_fake], 1))
            g_loss = bce(d_fake, torch.ones_like(d_fake)) + 5 * l1(y_fake, y)
        opt_gen.zero_grad()
        g_scaler.scale(g_loss).backward()
        g_scaler.step(opt_gen)
        g_scaler.update()

        if idx % STEPS_LOG == 0:
            print(
                "batch",
                idx,
                "D %.4f" % d_loss.item(),
                "G %.4f" % g_loss.item(),
                sep="\t",
            )


def save_checkpoint(model, optimizer, filename):
    print("=> Saving checkpoint")
    torch.save(
        {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict()},
        filename,
    )


def main():
    torch.manual_seed(83)
    x = torch.randn(96, NOISE)
    y = torch.stack([x.sum(1), x.abs().mean(1)], dim=1)
    loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)
    disc = nn.Sequential(nn.Linear(NOISE + 2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    gen = nn.Sequential(nn.Linear(NOISE, 32), nn.ReLU(), nn.Linear(32, 2))
    disc, gen = disc.cuda(), gen.cuda()
    opt_disc = torch.optim.Adam(disc.parameters(), lr=2e-3, betas=(0.5, 0.999))
    opt_gen = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.5, 0.999))
    bce, l1 = nn.BCEWithLogitsLoss(), nn.L1Loss()
    g_scaler = amp.GradScaler()
    d_scaler = amp.GradScaler()
    for epoch in range(2):
        train_fn(disc, gen, loader, opt_disc, opt_gen, l1, bce, d_scaler, g_scaler)
    save_checkpoint(gen, opt_gen, "gen.pth.tar")
    save_checkpoint(disc, opt_disc, "disc.pth.tar")


if __name__ == "__main__":
    main()
