import torch
from torch import nn


class MaskedAutoencoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, dim), nn.GELU(), nn.Linear(dim, dim))
        self.mask_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.decoder = nn.Linear(dim, 12)

    def random_masking(self, x, keep):
        noise = torch.rand(x.shape[0], x.shape[1], device=x.device)
        ids = torch.argsort(noise, dim=1)
        mask = torch.ones(x.shape[0], x.shape[1], device=x.device)
        mask[:, :keep] = 0
        return torch.gather(mask, 1, torch.argsort(ids, dim=1))

    def forward(self, patches):
        mask = self.random_masking(patches, keep=2).unsqueeze(-1)
        latent = self.encoder(patches) * (1 - mask) + self.mask_token * mask
        loss = (self.decoder(latent) - patches) ** 2
        return (loss * mask).sum() / mask.sum() / patches.shape[-1]
