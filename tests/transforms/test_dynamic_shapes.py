"""Findings about shapes that change: what compiles again and what does not."""

from __future__ import annotations

from textwrap import indent

import pytest
from helpers import findings, migrate

HEAD = """\
import random
import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

net = torch.nn.Linear(4, 3).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
feed = DataLoader(data, 8)
"""
FIRST = 14  # the line on which the lines under test begin


def step(lines: str, setup: str = "") -> list[tuple[str, int]]:
    body = (
        "x, y = x.cuda(), y.cuda()\nout = net(x)\n"
        + lines
        + "F.cross_entropy(out, y).backward()\nopt.step()\n"
    )
    code = HEAD + setup + "i = 0\nfor k, (x, y) in enumerate(feed):\n" + indent(body, "    ")
    return findings(code, "dynamic_shapes")


@pytest.mark.parametrize(
    "lines",
    [
        "out = out * (0.1 * k)\n",  # a factor
        "out = F.dropout(out, 0.1 * k)\n",
        "out = out.clamp(max=k)\n",
        "y = torch.full((8,), k, device='cuda')\n",
        "net.weight.data.mul_(0.9 ** k).add_(out.mean())\n",  # a moving average
        "out = torch.where(out > 0, out, 0.0)\n",
        "out = out[torch.randperm(8, device='cuda')]\n",  # a permutation
        "out[:, :2] = 0\n",  # constant bounds
        "out = out.masked_fill(out < 0, 0.0)\n",
        "for p in opt.param_groups:\n    p['lr'] = 0.1 / (k + 1)\n",
        "for t in range(4):\n    out = out + x[:, t : t + 1]\n",  # unrolled: the same in every step
        "z = F.one_hot(y, num_classes=3)\n",
        "names = {'a': 1}[random.choice('a')]\n",
        "part = order[k : k + 4]\nout = out[part] + out[order[k : k + 4]]\n",  # an array of numbers
    ],
)
def test_what_does_not_compile_again(lines: str) -> None:
    assert step(lines) == []


@pytest.mark.parametrize(
    "lines",
    [
        "keep = y != 0\nout = out[keep]\n",
        "out = out[y > 0]\n",
        "out = out[~(y > 0)]\n",
        "out[out < 0] = 0.0\n",
        "mask = y.bool()\nout = out[mask]\n",
    ],
)
def test_boolean_masks(lines: str) -> None:
    assert step(lines) == [("XLA902", FIRST + lines.count("\n") - 1)]


@pytest.mark.parametrize(
    "expression",
    [
        "out.nonzero()", "torch.nonzero(out)", "torch.where(out > 0)", "out.masked_select(out > 0)",
        "torch.unique(y)", "torch.bincount(y)", "F.one_hot(y)", "torch.repeat_interleave(out, y)",
    ],
)  # fmt: skip
def test_shapes_that_depend_on_the_data(expression: str) -> None:
    assert step(f"z = {expression}\n") == [("XLA903", FIRST)]


@pytest.mark.parametrize(
    "lines",
    [
        "out = out ** k\n",
        "z = out.topk(k)\n",
        "z = torch.topk(out, k)\n",
        "z = out[k]\n",
        "z = out[:, :k]\n",
        "z = torch.split(out, k)\n",
        "z = torch.arange(k, device='cuda')\n",
        "z = out.roll(i)\ni += 1\n",
        "z = out[:, : i]\n",
    ],
)
def test_python_numbers_that_change(lines: str) -> None:
    extra = "" if "i]" not in lines else "i = random.randint(1, 3)\n"
    assert step(extra + lines) == [("XLA904", FIRST + extra.count("\n"))]


def test_what_changes_in_many_places_of_a_loop_is_told_once_with_all_lines() -> None:
    lines = "z = out[k]\nw = out[k], x[k]\nv = out.topk(k)\n"
    assert step(lines) == [("XLA904", FIRST)]
    code = HEAD + "for k, (x, y) in enumerate(feed):\n    out = net(x.cuda())\n" + indent(lines, "    ")
    message = migrate(code + "    out.sum().backward()\n", "dynamic_shapes").findings[0].message
    assert message.endswith("each value is a new compilation (so in lines 12, 13, 14)")


def test_numbers_derived_from_random_ones() -> None:
    lines = "cut = np.random.randint(4)\nstop = min(cut + 2, 4)\nx[:, cut:stop] = 0\n"
    assert step(lines) == [("XLA904", FIRST + 2)]


def test_the_same_outside_of_steps_is_fine() -> None:
    code = HEAD + "x = net(torch.rand(4, 4).cuda())\nprint(x[x > 0], x.nonzero())\n"
    assert findings(code, "dynamic_shapes") == []


def test_functions_and_models_that_each_step_runs_are_looked_at() -> None:
    setup = "def pick(scores, tags):\n    return scores[tags != 0]\n"
    assert step("z = pick(out, y)\n", setup) == [("XLA902", 11)]


def messages(lines: str) -> list[str]:
    head = "for x, y in feed:\n    x, y = x.cuda(), y.cuda()\n    out = net(x)\n"
    code = HEAD + head + indent(lines, "    ")
    return [f.message for f in migrate(code, "dynamic_shapes").findings if f.code == "XLA902"]


def test_whole_numbers_that_are_named_a_mask_select_as_many_each_time() -> None:
    assert messages("mask = torch.randperm(4, device='cuda')\nout = out[mask]\n") == []


def test_what_a_name_alone_calls_a_mask_is_told_with_a_condition() -> None:
    (told,) = messages("mask = torch.tensor(picks, device='cuda')\nout = out[mask]\n")
    (sure,) = messages("mask = y > 0\nout = out[mask]\n")
    assert "named a mask: if it is boolean, a new number of hits" in told
    assert "through a boolean mask: a new number of hits" in sure
