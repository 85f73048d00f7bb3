import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler
import torch_xla
import torch_xla.core.xla_model as xm


class Corpus(Dataset):
    def __init__(self, n):
        self.features = torch.randn(n, 11)
        self.targets = (self.features[:, 0] > 0.8).long()
        self.classes = ["common", "rare"]

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return self.features[i], self.targets[i]


def balanced_loader(corpus, batch_size):
    counts = torch.bincount(corpus.targets)
    weights = (1.0 / counts)[corpus.targets]
    picker = WeightedRandomSampler(weights, num_samples=len(corpus))
    return DataLoader(corpus, batch_size=batch_size, sampler=picker, drop_last=True)


EPOCHS = 2
torch.manual_seed(13)
torch_xla.manual_seed(13)
feed = balanced_loader(Corpus(84), batch_size=8)
device = torch_xla.device()
net = nn.Sequential(nn.Linear(11, 22), nn.ReLU(), nn.Linear(22, 2)).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
crit = nn.CrossEntropyLoss()

steps_per_epoch = len(feed.dataset) // feed.batch_size
assert steps_per_epoch == len(feed)
print(
    f"{len(feed.dataset)} items, classes {feed.dataset.classes}, "
    f"sampler draws {feed.sampler.num_samples}, batches {len(feed)}"
)
for epoch in range(EPOCHS):
    for n, (xs, ys) in enumerate(feed):
        loss = crit(net(xs.to(device)), ys.to(device))
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt)
        torch_xla.sync()
        if n % 5 == 0:
            done = n * feed.batch_size
            print(epoch, done, "of", len(feed.dataset), f"{loss.item():.4f}")
            rare = ys.float().mean().item()
            assert 0.0 <= rare <= 1.0
