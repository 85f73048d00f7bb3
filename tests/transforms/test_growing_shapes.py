"""Tensors that are made longer in each step."""

from __future__ import annotations

import pytest
from helpers import findings, migrate

SCRIPT = """\
import numpy as np
import torch

model = torch.nn.Linear(8, 2).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 8)), batch_size=2)
seen = torch.zeros(0, 2).cuda()
for (x,) in data:
    x = x.cuda()
    out = model(x)
    {}
    opt.zero_grad()
    out.sum().backward()
    opt.step()
"""


def told(*lines: str) -> list[tuple[str, int]]:
    code = SCRIPT.format("\n    ".join(lines))
    return [found for found in findings(code) if found[0] == "XLA907"]


@pytest.mark.parametrize(
    "lines",
    [
        ("out = torch.cat([out, x], dim=1)",),
        ("pieces = [out]", "for layer in layers:", "    out = torch.cat([out, layer(out)], 1)"),
        ("seen = torch.zeros(0, 2).cuda()", "seen = torch.cat([seen, out])"),
        ("both = torch.cat([seen, out])",),
        ("seen = torch.cat([seen, out])[-100:]",),
        ("kept = torch.cat([kept, out.cpu()])",),
        ("seen = np.concatenate([seen, out])",),
        ("seen = torch.stack([seen, seen]).mean(0)",),
    ],
)
def test_what_is_as_long_in_each_step_or_on_the_host_is_no_matter(lines: tuple[str, ...]) -> None:
    before = "kept = torch.zeros(0, 2)\n"
    code = SCRIPT.format("\n    ".join(lines)).replace("seen = ", f"{before}seen = ", 1)
    assert [found for found in findings(code) if found[0] == "XLA907"] == []


def test_a_loop_that_takes_no_step_is_no_matter() -> None:
    code = SCRIPT.format("pass") + "for _ in range(3):\n    seen = torch.cat([seen, seen])\n"
    assert [found for found in findings(code) if found[0] == "XLA907"] == []


@pytest.mark.parametrize(
    "line",
    [
        "seen = torch.cat([seen, out.detach()])",
        "seen = torch.cat((out.detach(), seen), dim=0)",
        "seen = torch.vstack([seen, out.detach()])",
        "seen = torch.concat([seen, out.detach()], 0)",
    ],
)
def test_what_is_joined_to_its_own_value_of_the_step_before_grows(line: str) -> None:
    assert told(line) == [("XLA907", 11)]


def test_a_model_that_generates_grows_its_text() -> None:
    code = SCRIPT.format("pass") + (
        "@torch.no_grad()\ndef generate(net, text, count):\n    for _ in range(count):\n"
        "        text = torch.cat((text, net(text)[:, -1:]), dim=1)\n    return text\n\n"
        "generate(model, torch.zeros(1, 8).cuda(), 100)\n"
    )
    (found,) = [one for one in migrate(code).findings if one.code == "XLA907"]
    assert (found.span.line, found.severity.label) == (18, "warning")
    assert found.message.startswith("text grows in every step")
