"""Whole scripts for the tests in this folder: heads that they share, and the check of what becomes of one.

Each test is about one way in which a migration to PyTorch/XLA goes wrong. All passes run, and every finding
is compared: what a script does not ask for must not be said.
"""

from __future__ import annotations

import difflib

from helpers import migrate, open_findings

from xla_transforms.engine import Outcome
from xla_transforms.settings import Settings

REPLICAS = Settings(distributed=True)

IMPORTS = """\
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

"""
ALONE = """\
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

"""
DATA = "ds = TensorDataset(torch.rand(40, 4), torch.randint(2, (40,)))\n"
NET = """\
net = nn.Linear(4, 2).cuda()
crit = nn.CrossEntropyLoss()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""
ONE = ALONE + DATA + "feed = DataLoader(ds, batch_size=4, drop_last=True)\n" + NET
"""A script of one process, up to its training loop."""
RANKS = (
    IMPORTS
    + 'dist.init_process_group("nccl")\n'
    + DATA
    + "feed = DataLoader(ds, batch_size=4, sampler=DistributedSampler(ds), drop_last=True)\n"
    + NET
    + "net = DDP(net)\n"
)
"""A script that a launcher starts once for each GPU, up to its training loop."""
STEP = "    opt.zero_grad()\n    crit(net(xs.cuda()), ys.cuda()).backward()\n    opt.step()\n"


def becomes(code: str, *blocks: str, settings: Settings | None = None) -> Outcome:
    """Migrate a script: each block of lines is in what becomes of it, and a second run changes nothing."""
    outcome = migrate(code, settings=settings)
    assert not outcome.failed
    text = outcome.data.decode()
    for block in blocks:
        assert f"\n{block}" in f"\n{text}", f"not found:\n{block}\nin:\n{text}"
    again = migrate(text).data.decode().splitlines()
    assert again == text.splitlines(), "\n".join(difflib.unified_diff(text.splitlines(), again, lineterm=""))
    return outcome


def says(code: str, *expected: str, settings: Settings | None = None) -> None:
    """All that the migration did not do itself: ``XLA905 info: feed = DataLoader(``, rule and line."""
    lines = code.splitlines()
    found = [
        f"{f.code} {f.severity.name.lower()}: {lines[f.span.line - 1].strip()}"
        for f in open_findings(migrate(code, settings=settings))
    ]
    assert found == list(expected), "\n".join(found)
