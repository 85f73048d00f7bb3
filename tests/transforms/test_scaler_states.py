"""What is read from the state of a scaler that is switched off: its scale, which would no longer be there."""

from __future__ import annotations

import pytest
import torch
from helpers import check_transformed, migrate

from xla_transforms import engine
from xla_transforms.settings import Settings

PASSES = ("grad_scaler", "scaler_states")
WRAPPER = b"""\
import torch


class Scaling:
    def __init__(self):
        self._scaler = torch.cuda.amp.GradScaler()

    def __call__(self, loss, optimizer):
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        self._scaler.update()

    def state_dict(self):
        return self._scaler.state_dict()
"""


def test_the_premise_the_state_of_a_scaler_that_is_off_is_empty() -> None:
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    assert scaler.state_dict() == {}
    assert scaler.get_scale() == 1.0


def test_the_scale_that_is_read_from_the_state_is_one() -> None:
    head = 'import torch\n\ndevice = torch.device("cuda")\n'
    rest = "scaler.scale(loss).backward()\nscaler.step(opt)\nscaler.update()\n"
    check_transformed(
        f'{head}scaler = torch.amp.GradScaler("cuda")\n{rest}print(scaler.state_dict()["scale"])\n',
        f'{head}scaler = torch.amp.GradScaler("xla", enabled=False)\n{rest}'
        'print(scaler.state_dict().get("scale", 1.0))\n',
        *PASSES,
        rules={"XLA312", "XLA320"},
    )


def test_the_scale_is_read_through_a_wrapper_of_another_file() -> None:
    script = b"""\
import torch
from scaling import Scaling

net = torch.nn.Linear(2, 2).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaling = Scaling()
for x in rows:
    scaling(net(x.cuda()).sum(), opt)
    state = scaling.state_dict()
    print(state['scale'])
"""
    outcomes = engine.migrate_program({"train.py": script, "scaling.py": WRAPPER})
    assert b'GradScaler("xla", enabled=False)' in outcomes["scaling.py"].data
    assert b"print(state.get('scale', 1.0))" in outcomes["train.py"].data


@pytest.mark.parametrize(
    "read",
    ['print(opt.state_dict()["scale"])', 'state = {}\nprint(state["scale"])', 'state["scale"] = 2.0'],
)
def test_what_is_no_read_of_a_scalers_state_stays(read: str) -> None:
    code = f"""\
import torch

opt = torch.optim.SGD(net.cuda().parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler()
print(scaler.get_scale())
{read}
"""
    assert read in migrate(code, *PASSES).data.decode()


def test_a_scaler_that_works_on_the_device_keeps_its_state() -> None:
    code = 'import torch\n\nscaler = torch.cuda.amp.GradScaler()\nprint(scaler.state_dict()["scale"])\n'
    text = migrate(code, *PASSES, settings=Settings(target="2.1")).data.decode()
    assert 'scaler.state_dict()["scale"]' in text
