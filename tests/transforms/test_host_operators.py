"""Operators that torch_xla has the CPU compute."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = nn.Linear(4, 3).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
feed = DataLoader(data)
"""
STEP = """\
for x, y in feed:
    x, y = x.to(device), y.to(device)
    loss = {}
    loss.backward()
    opt.step()
"""
LOWERED = ["F.smooth_l1_loss(model(x), y)", "F.cross_entropy(model(x), y)", "model(x).sum()"]
ON_HOST = ["F.huber_loss(model(x), y)", "model(x).median()", "torch.cdist(model(x), y).sum()"]


def test_a_script_for_the_cpu_has_no_finding() -> None:
    assert findings("import torch\nbag = torch.nn.EmbeddingBag(9, 4)\n", "host_operators") == []


@pytest.mark.parametrize("loss", LOWERED)
def test_operators_of_the_device_have_no_finding(loss: str) -> None:
    check_noop(HEAD + STEP.format(loss), "host_operators")
    assert findings(HEAD + STEP.format(loss), "host_operators") == []


def test_a_call_outside_of_loops_has_no_finding() -> None:
    assert findings(HEAD + "print(torch.median(model(x.to(device))))\n", "host_operators") == []


def test_a_tensor_of_the_host_has_no_finding() -> None:
    code = HEAD + STEP.format("model(x).sum()") + "    torch.rand(4).median()\n"
    assert findings(code, "host_operators") == []


def test_a_layer_is_reported_where_it_is_made() -> None:
    assert findings(HEAD + "bag = nn.EmbeddingBag(9, 4)\n", "host_operators") == [("XLA906", 10)]


@pytest.mark.parametrize("loss", ON_HOST)
def test_a_function_is_reported_where_every_step_calls_it(loss: str) -> None:
    assert findings(HEAD + STEP.format(loss), "host_operators") == [("XLA906", 12)]
