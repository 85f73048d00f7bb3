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

HANDED_ON = """
import torch, torch_xla
device = torch_xla.device()

class Cell(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 3)

    def forward(self, x, state, options):
        out, state = self.lstm(x, state)
        return out, tuple(part.detach() for part in state)

model = Cell().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
state = (torch.zeros(1, 2, 3, device=device), torch.zeros(1, 2, 3, device=device))
for step in range(3):
    optimizer.zero_grad()
    out, state = model(torch.ones(5, 2, 4, device=device), state, {"mask": [state[0]]})
    out.sum().backward()
    optimizer.step()
    torch_xla.sync()
"""


def test_a_state_that_is_handed_on_is_described_without_being_read(succeed) -> None:
    trace = succeed(HANDED_ON, "xla", mode="count")
    assert trace.reads == []
    shapes = {sample.shapes for sample in trace.samples if sample.event == "step"}
    assert shapes == {"Cell([5, 2, 4], ([1, 2, 3], [1, 2, 3]), {mask: ([1, 2, 3])})"}
