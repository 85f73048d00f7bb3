"""Which reads of a value make the device compute, and which only wait for what is computed already."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import torch, torch_xla, torch_xla.core.xla_model as xm
device = torch_xla.device()
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 256)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(6):
    optimizer.zero_grad()
    loss = model(torch.ones(512, 256, device=device)).square().mean()
    loss.backward()
    xm.optimizer_step(optimizer)
    BEFORE
    torch_xla.sync()
    BEHIND
"""


@pytest.mark.parametrize(("place", "executions"), [("BEFORE", 6), ("BEHIND", 0)])
def test_a_read_is_charged_with_what_it_computes(succeed, place: str, executions: int) -> None:
    code = SCRIPT.replace(place, "print(loss.item())").replace("BEFORE", "").replace("BEHIND", "")
    (read,) = succeed(code, "xla", mode="count").reads
    assert (read.what, read.count, read.executions) == ("item", 6, executions)
