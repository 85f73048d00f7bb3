"""Step counts of optimizers where new tensors are made on the device."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, findings

MODEL = "import torch\nmodel = torch.nn.Linear(2, 2).cuda()\n"
ON_DEVICE = MODEL + "torch.set_default_device(torch.device('cuda'))\n"


def test_without_a_default_device_optimizers_stay() -> None:
    check_noop(MODEL + "opt = torch.optim.Adam(model.parameters(), lr=0.1)\n", "default_device")


def test_the_host_as_default_device_changes_nothing() -> None:
    code = MODEL + "torch.set_default_device('cpu')\nopt = torch.optim.Adam(model.parameters())\n"
    check_noop(code, "default_device")


@pytest.mark.parametrize("made", ["SGD({}, lr=0.1)", "Adam({}, capturable=flag)"])
def test_an_optimizer_that_does_not_count_or_is_told_stays(made: str) -> None:
    check_noop(ON_DEVICE + f"opt = torch.optim.{made.format('model.parameters()')}\n", "default_device")


def test_a_default_device_that_may_be_the_cpu_is_reported() -> None:
    code = (
        "import sys\nimport torch\ndevice = torch.device('cuda' if '--gpu' in sys.argv else 'cpu')\n"
        "torch.set_default_device(device)\nopt = torch.optim.Adam(model.parameters())\n"
    )
    check_noop(code, "default_device")
    assert findings(code, "default_device") == [("XLA406", 5)]


def test_arguments_that_stand_elsewhere_are_reported() -> None:
    code = ON_DEVICE + "opt = torch.optim.Adam(model.parameters(), **settings)\n"
    assert findings(code, "default_device") == [("XLA406", 4)]


@pytest.mark.parametrize("name", ["Adam", "NAdam", "RMSprop"])
def test_the_step_count_stays_on_the_default_device(name: str) -> None:
    check_transformed(
        ON_DEVICE + f"opt = torch.optim.{name}(model.parameters(), lr=0.1)\n",
        ON_DEVICE + f"opt = torch.optim.{name}(model.parameters(), lr=0.1, capturable=True)\n",
        "default_device",
    )


def test_a_default_tensor_type_counts_as_a_default_device() -> None:
    head = MODEL + "torch.set_default_tensor_type(torch.cuda.FloatTensor)\n"
    code = head + "opt = torch.optim.AdamW(model.parameters())\n"
    check_transformed(code, code.replace("())\n", "(), capturable=True)\n"), "default_device")


def test_a_trailing_comma_stays_where_it_is() -> None:
    code = ON_DEVICE + "opt = torch.optim.Adam(\n    model.parameters(),\n    lr=0.1,\n)\n"
    check_transformed(code, code.replace("0.1,", "0.1, capturable=True,"), "default_device")
