"""Findings about padding and last batches."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings, migrate

HEAD = """\
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import DataCollatorWithPadding

model = torch.nn.Linear(4, 3).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def found(line: str) -> list[tuple[str, int]]:
    return findings(HEAD + line + "\n", "ragged_batches")


@pytest.mark.parametrize(
    "line",
    [
        'tok(texts, padding="max_length", max_length=128)',
        "tok(texts, padding=False)",
        "tok(texts)",
        "torch.nn.Conv2d(3, 3, 3, padding=1)",
        'torch.nn.Conv2d(3, 3, 3, padding="same")',
        'DataCollatorWithPadding(tok, padding="max_length", max_length=128)',
    ],
)
def test_constant_shapes(line: str) -> None:
    assert found(line) == []


@pytest.mark.parametrize(
    "line",
    [
        'tok(texts, padding="longest", truncation=True)',
        "tok(texts, padding=True)",
        "DataCollatorWithPadding(tok)",
        "pad_sequence(rows, batch_first=True)",
    ],
)
def test_padding_to_the_longest(line: str) -> None:
    outcome = migrate(HEAD + line + "\n", "ragged_batches")
    assert [(f.code, f.severity.label, f.span.line) for f in outcome.findings] == [("XLA901", "warning", 8)]


def test_lengths_that_are_rounded_are_only_mentioned() -> None:
    outcome = migrate(HEAD + "tok(texts, padding=True, pad_to_multiple_of=64)\n", "ragged_batches")
    assert [f.severity.label for f in outcome.findings] == ["info"]


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
