"""Whole outputs that every training step brings to the host."""

from __future__ import annotations

import pytest
from helpers import findings, migrate

HEAD = """\
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = torch.nn.Linear(4, 3).to(device)
criterion = torch.nn.CrossEntropyLoss()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
"""
STEP = """\
for i, (x, y) in enumerate(DataLoader(data, batch_size=8)):
    x, y = x.to(device), y.to(device)
    opt.zero_grad()
    out = model(x)
    loss = criterion(out, y)
    loss.backward()
    opt.step()
"""
PASSES = ("loaders", "step_closures", "host_reads", "large_transfers")


def told(line: str, step: str = STEP) -> list[str]:
    found = migrate(f"{HEAD}{step}    {line}\n", *PASSES).findings
    return [finding.message for finding in found if finding.code == "XLA706"]


@pytest.mark.parametrize(
    "line",
    [
        "kept.append(loss.item())",
        "kept.append(loss.detach().cpu())",
        "kept.append(out.argmax(1).cpu())",
        "kept.append(out.detach().mean().cpu())",
        "kept.append(out.detach())",
        "kept.append(criterion(out, y).cpu())",
        "if i % 10 == 0:\n        kept.append(out.cpu())",
    ],
)
def test_what_is_small_or_stays_has_no_finding(line: str) -> None:
    assert told(line) == []


def test_what_an_evaluation_collects_has_no_finding() -> None:
    step = "with torch.no_grad():\n  for x, y in DataLoader(data):\n    out = model(x.to(device))\n"
    assert told("kept.append(out.cpu())", step) == []


def test_a_model_that_gives_its_loss_has_no_finding() -> None:
    step = STEP.replace("out = model(x)", "loss = model(x)").replace("    loss = criterion(out, y)\n", "")
    assert told("kept.append(loss.detach().cpu())", step) == []


@pytest.mark.parametrize(
    "read",
    [
        "out.detach().cpu()",
        "out.tolist()",
        "out.softmax(1).cpu()",
        "torch.softmax(out, 1).detach().cpu()",
        "F.log_softmax(out.detach(), dim=1).cpu()",
    ],
)
def test_whole_outputs_are_told(read: str) -> None:
    assert told(f"kept.append({read})") == [
        f"{read} brings whole outputs of the model to the host in every step"
    ]


def test_a_read_that_cuts_the_step_is_told_once() -> None:
    code = HEAD + STEP.replace("    loss = ", "    use(out.cpu())\n    loss = ")
    found = {code for code, _ in findings(code, *PASSES)}
    assert "XLA701" in found
    assert "XLA706" not in found
