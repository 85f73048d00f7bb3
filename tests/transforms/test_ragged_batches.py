"""Findings about last batches."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings

HEAD = """\
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(4, 3).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def loop(arguments: str, *, train: bool = True) -> str:
    step = (
        "    model(x.cuda()).mean().backward()\n    opt.step()\n" if train else "    out = model(x.cuda())\n"
    )
    return f"{HEAD}feed = DataLoader(data, {arguments})\nfor x in feed:\n{step}"


@pytest.mark.parametrize(
    "arguments", ["batch_size=8, drop_last=True", "batch_size=1", "batch_sampler=b", "**kw"]
)
def test_batches_of_one_shape(arguments: str) -> None:
    assert findings(loop(arguments), "ragged_batches") == []


@pytest.mark.parametrize("train", [True, False])
def test_a_smaller_last_batch_is_mentioned_and_kept(train: bool) -> None:
    outcome = check_noop(loop("batch_size=8, shuffle=True", train=train), "ragged_batches")
    assert [(f.code, f.severity.label) for f in outcome.findings] == [("XLA905", "info")]


def test_an_explicit_smaller_last_batch_is_a_warning() -> None:
    outcome = check_noop(loop("batch_size=8, drop_last=False"), "ragged_batches")
    assert [(f.code, f.severity.label) for f in outcome.findings] == [("XLA905", "warning")]
