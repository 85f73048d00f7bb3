# python -m torch.distributed.launch --nproc_per_node=N native.py
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS = 2
USAGE = """
  --local_rank comes from the launcher,
     never from you
"""

parser = argparse.ArgumentParser(epilog=USAGE)
parser.add_argument("--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", 0)))
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()

# one GPU for each process
torch.cuda.set_device(args.local_rank)
dist.init_process_group(backend="nccl", init_method="env://")
torch.manual_seed(21)
best = float("inf")


class Gated(nn.Module):
    """A layer and its gate.

    Both see the input.
    """

    def __init__(self, width=12):
        super().__init__()
        self.value = nn.Linear(6, width)
        self.gate = nn.Linear(6, width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.value(x)) * torch.sigmoid(self.gate(x)))


# data
x = torch.randn(64, 6, generator=torch.Generator().manual_seed(2))
y = (x[:, :3].sum(1, keepdim=True) * x[:, 3:4]).tanh()
dataset = TensorDataset(x, y)
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler, drop_last=True)

# model
model = Gated().cuda()
model = DistributedDataParallel(model, device_ids=[args.local_rank], output_device=args.local_rank)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
loss_fn = nn.MSELoss().cuda()


def run_epoch(epoch):
    global best
    sampler.set_epoch(epoch)
    total = 0.0
    for inputs, targets in loader:
        inputs = inputs.cuda(args.local_rank, non_blocking=True)
        targets = targets.cuda(args.local_rank, non_blocking=True)
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += loss.item()
    best = min(best, total / len(loader))


for epoch in range(EPOCHS):
    run_epoch(epoch)
    if dist.get_rank() == 0:
        print("""epoch %d
best %.5f""" % (epoch, best))

if args.local_rank == 0:
    torch.save(model.module.state_dict(), "gated.pt")
