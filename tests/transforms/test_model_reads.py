"""What a model's forward pass needs on the host: a finding where training runs it."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest
from helpers import check_noop, findings, migrate

TOP = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader

device = torch.device("cuda")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.wide = True
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, x, scale=None):
{body}
        return x

{more}
model = Net().to(device)
"""
TRAINS = """
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=8):
    opt.zero_grad()
    ((model(x.to(device)) - y.to(device)) ** 2).mean().backward()
    opt.step()
"""
EVALUATES = """
for x, y in DataLoader(data, batch_size=8):
    total += model(x.to(device)).sum()
"""


def written(body: str, *, more: str = "", end: str = TRAINS) -> str:
    return TOP.format(body=indent(dedent(body), "        "), more=dedent(more)) + end


def found(code: str) -> list[str]:
    check_noop(code, "model_reads")
    return [finding.message for finding in migrate(code, "model_reads").findings]


@pytest.mark.parametrize(
    "body",
    [
        "x = self.fc(x)",
        "if x.shape[0] > 4:\n    x = x * 2",
        "if x.is_cuda and self.wide:\n    x = x * 2",
        "if scale is not None:\n    x = x * scale",
        "if scale == 1:\n    x = x * 2",  # of a parameter it is not known that it is a tensor
        "for row in range(x.size(0)):\n    x = x + row",
        "x = torch.where(x.sum() > 0, x, -x)",
        "if self.wide:\n    x = x * 2",
        "if self.place.shape[0] > 1:\n    x = x * 2",
        "if x > self.place.numel():\n    x = x * 2",
        "if self.place is not None:\n    x = x + self.place",
        "if self.fc(x).type() == 'torch.HalfTensor':\n    x = x * 2",
    ],
)
def test_what_the_host_knows_has_no_finding(body: str) -> None:
    assert found(written(body)) == []


def test_a_model_that_is_only_evaluated_has_no_finding() -> None:
    assert found(written("if x.sum() > 0:\n    x = -x", end=EVALUATES)) == []


@pytest.mark.parametrize("body", [
    "if not self.training:\n    print(x.sum().item())",
    "if self.training:\n    x = x * 2\nelse:\n    print(x.sum().item())",
])  # fmt: skip
def test_what_only_evaluation_reads_has_no_finding(body: str) -> None:
    assert found(written(body)) == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("if x.sum() > 0:\n    x = -x", "Python decides by x.sum() > 0"),
        ("while x.norm() > 10:\n    x = x / 2", "Python decides by x.norm() > 10"),
        ("assert not torch.isnan(x).any()", "Python decides by not torch.isnan(x).any()"),
        ("x = x if x.mean() > 0 else -x", "Python decides by x.mean() > 0"),
        ("top = self.fc(x).max()\nif top > 1:\n    x = x / 2", "Python decides by top > 1"),
        ("for step in range(int(x.max())):\n    x = x + step", "a loop counts by int(x.max())"),
        ("x = x * x.std().item()", "the host reads x.std().item()"),
        ("at = int(self.place)\nx = x[at:]", "the host reads int(self.place)"),
        ("if self.place > 3:\n    x = -x", "Python decides by self.place > 3"),
        ("if self.training:\n    x = x * x.std().item()", "the host reads x.std().item()"),
        ("if self.wide:\n    order = x.argsort().cpu()", "the host reads x.argsort().cpu()"),
    ],
)  # fmt: skip
def test_a_value_that_the_host_needs_is_told(body: str, told: str) -> None:
    assert found(written(body)) == [f"{told} in every forward pass of Net"]


def test_what_a_forward_pass_calls_belongs_to_it() -> None:
    more = """
    def squash(x):
        while x.norm() > 10:
            x = x / 2
        return x
    """
    assert found(written("x = squash(self.fc(x))", more=more)) == [
        "Python decides by x.norm() > 10 in every forward pass of Net"
    ]


def test_a_model_within_a_model_is_trained_with_it() -> None:
    more = """
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Net()

        def forward(self, x):
            return self.inner(x)
    """
    code = written("if x.sum() > 0:\n    x = -x", more=more).replace("model = Net()", "model = Outer()")
    assert findings(code, "model_reads") == [("XLA705", 16)]


def test_a_model_whose_calls_are_not_seen_is_taken_as_trained() -> None:
    code = written("if x.sum() > 0:\n    x = -x", end="fit(model)\n")
    assert findings(code, "model_reads") == [("XLA705", 16)]
