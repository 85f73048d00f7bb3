import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

torch.manual_seed(999)
xm.set_rng_state(999)

ngpu = 1
nz = 8  # size of the latent vector
num_epochs = 2
lr = 1e-3
beta1 = 0.5
device = xm.xla_device() if (ngpu > 0) else torch.device("cpu")


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(nz, 32),
            nn.LeakyReLU(0.2),
            nn.Linear(32, 16),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(16, 32),
            nn.LeakyReLU(0.2),
            nn.Linear(32, 1),
        )

    def forward(self, x):
        return self.main(x).view(-1)


def weights_init(m):
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, 0.0, 0.1)
        nn.init.zeros_(m.bias)


# real samples: smooth bumps
centers = torch.rand(80, 1) * 12 + 2
real_data = torch.exp(-0.5 * (torch.arange(16).float() - centers) ** 2) * 1.6 - 0.8
dataloader = DataLoader(TensorDataset(real_data), batch_size=10, shuffle=True)
if device.type == "xla":
    dataloader = pl.MpDeviceLoader(dataloader, device)

netG = Generator().to(device)
netG.apply(weights_init)
netD = Discriminator().to(device)
netD.apply(weights_init)

criterion = nn.BCEWithLogitsLoss()
fixed_noise = torch.randn(4, nz, device=device)
real_label = 1.0
fake_label = 0.0

optimizerD = optim.Adam(netD.parameters(), lr=lr, betas=(beta1, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=lr, betas=(beta1, 0.999))

G_losses = []
D_losses = []
print("Starting Training Loop...")
for epoch in range(num_epochs):
    for i, data in enumerate(dataloader, 0):
        # (1) discriminator: real batch, then fake batch
        netD.zero_grad()
        real = data[0]
        b_size = real.size(0)
        label = torch.full((b_size,), real_label, dtype=torch.float, device=device)
        output = netD(real)
        errD_real = criterion(output, label)
        errD_real.backward()
        D_x = output.sigmoid().mean().detach()

        noise = torch.randn(b_size, nz, device=device)
        fake = netG(noise)
        label.fill_(fake_label)
        output = netD(fake.detach())
        errD_fake = criterion(output, label)
        errD_fake.backward()
        D_G_z1 = output.sigmoid().mean().detach()
        errD = errD_real + errD_fake
        xm.optimizer_step(optimizerD)

        # (2) generator
        netG.zero_grad()
        label.fill_(real_label)
        output = netD(fake)
        errG = criterion(output, label)
        errG.backward()
        D_G_z2 = output.sigmoid().mean().detach()
        xm.optimizer_step(optimizerG)

        if i % 4 == 0:
            xm.mark_step()
            D_x = D_x.item()
            D_G_z1 = D_G_z1.item()
            D_G_z2 = D_G_z2.item()
            print(
                "[%d/%d][%d/%d]\tLoss_D: %.4f\tLoss_G: %.4f\tD(x): %.4f\tD(G(z)): %.4f / %.4f"
                % (
                    epoch,
                    num_epochs,
                    i,
                    len(dataloader),
                    errD.item(),
                    errG.item(),
                    D_x,
                    D_G_z1,
                    D_G_z2,
                )
            )
        G_losses.append(errG.detach())
        D_losses.append(errD.detach())
    G_losses[:] = [float(v) for v in G_losses]
    D_losses[:] = [float(v) for v in D_losses]

with torch.no_grad():
    sample = netG(fixed_noise).detach().cpu()
print("sample mean %.4f" % sample.mean().item())
xm.save(netG.state_dict(), "generator.pth")
