"""Parameters that a script steps by hand, without an optimizer."""

from __future__ import annotations

import pytest
from helpers import migrate, open_findings

from xla_transforms.settings import Settings

SCRIPT = """\
import torch
from torch import nn

model = nn.Linear(4, 2).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 4)), batch_size=2)
for (x,) in data:
    opt.zero_grad()
    model(x.cuda()).sum().backward()
    opt.step()
    for {}
        {}
"""
ALL = "p in model.parameters():"


def told(loop: str, *lines: str) -> list[int]:
    """The lines at which replicas are refused because of a step by hand."""
    settings = Settings(distributed=True)
    outcome = migrate(SCRIPT.format(loop, "\n        ".join(lines)), settings=settings)
    found = [f for f in open_findings(outcome) if "steps the parameters by hand" in f.message]
    assert all("optimizer" in f.advice for f in found)
    return [int(f.message.partition("line ")[2].split()[0]) for f in found[:1]]


@pytest.mark.parametrize(
    ("loop", "line"),
    [
        (ALL, "p.grad.zero_()"),
        (ALL, "p.grad.data.clamp_(-1, 1)"),
        (ALL, "p.data.clamp_(-0.1, 0.1)"),
        (ALL, "norm = p.grad.norm() / p.data.norm()"),
        (ALL, "print(p, p.grad)"),
        ("p, q in zip(model.parameters(), other.parameters()):", "q.data.mul_(0.9).add_(p.data, alpha=0.1)"),
        ("p in (torch.ones(2),):", "p.data.add_(p.grad)"),
        ("i in range(3):", "delta.data = delta + 0.1 * delta.grad.sign()"),
    ],
)
def test_what_writes_no_parameter_with_its_gradient_is_no_matter(loop: str, line: str) -> None:
    assert told(loop, line) == []


@pytest.mark.parametrize(
    ("loop", "lines"),
    [
        (ALL, ["p.data.add_(p.grad, alpha=-0.1)"]),
        (ALL, ["p.data -= 0.1 * p.grad"]),
        (ALL, ["p.data = p.data - 0.1 * p.grad.data"]),
        (ALL, ["p.sub_(0.1 * p.grad)"]),
        (ALL, ["p.data.mul_(0.9).add_(p.grad.data, alpha=-0.1)"]),
        ("name, p in model.named_parameters():", ["p.data.add_(p.grad, alpha=-0.1)"]),
        ("p in filter(lambda w: w.requires_grad, model.parameters()):", ["p.data.add_(p.grad)"]),
    ],
)
def test_a_step_by_hand_starts_no_replicas(loop: str, lines: list[str]) -> None:
    assert told(loop, *lines) == [12]


def test_what_was_made_of_a_gradient_is_followed() -> None:
    assert told(ALL, "g = p.grad.data", "g = g + 0.1 * p.data", "p.data.add_(g, alpha=-0.1)") == [14]


ATTACKED = """\
import torch
from torch import nn


class Attack:
    def __init__(self, net):
        self.net = net

    def add(self):
        for name, p in self.net.named_parameters():
            norm = torch.norm(p.grad)
            p.data.add_(0.5 * p.grad / norm)


model = nn.Linear(4, 2).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
attack = Attack(model)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 4)), batch_size=2)
for (x,) in data:
    model(x.cuda()).sum().backward()
    attack.add()
    model(x.cuda()).sum().backward()
    {}
    opt.step()
"""


def attacked(line: str) -> tuple[bool, str]:
    """Whether replicas are refused, and what becomes of the script."""
    outcome = migrate(ATTACKED.format(line), settings=Settings(distributed=True))
    return any("by hand" in f.message for f in outcome.findings), outcome.code


def test_weights_that_are_moved_between_two_backward_passes_start_replicas() -> None:
    refused, code = attacked("pass")
    assert not refused
    assert "        xm.reduce_gradients(opt)\n        attack.add()\n" in code


def test_weights_that_are_moved_elsewhere_as_well_start_none() -> None:
    assert attacked("attack.add()")[0]
