"""Scripts that name no CUDA, and give the number of a GPU."""

from __future__ import annotations

import pytest
from helpers import check_noop, migrate

MAIN = """\
import torch


class Trainer:
    def __init__(self, model, gpu_id):
        self.gpu_id = gpu_id
        self.model = model.to(self.gpu_id)


def main({}):
    Trainer(torch.nn.Linear(20, 1), {})


{}
"""


@pytest.mark.parametrize(
    ("params", "given", "call"),
    [
        ("device", "device", "device = 0\nmain(device)"),
        ("device", "device", "main(device=0)"),
        ("epochs, device=1", "device", "main(3)"),
        ("epochs", "gpu_id=0", "main(3)"),
        ("epochs, device", "device", "gpu_number = 0\nnumber = gpu_number\nmain(3, number)"),
    ],
)
def test_a_number_that_is_handed_on_is_a_gpu(params: str, given: str, call: str) -> None:
    code = migrate(MAIN.format(params, given, call)).code
    assert "model.to(torch_xla.device())" in code


@pytest.mark.parametrize(
    ("params", "given", "call"),
    [
        ("device", "device", 'device = "cpu"\nmain(device)'),
        ("device", "device", "main(torch.device('cpu'))"),
        ("device_count", "torch.float64", "main(device_count=2)"),
        ("device", "device", "device = device_of_choice()\nmain(device)"),
    ],
)
def test_other_numbers_and_other_devices_are_no_gpu(params: str, given: str, call: str) -> None:
    check_noop(MAIN.format(params, given, call))


def test_functions_that_hand_on_to_each_other_come_to_an_end() -> None:
    code = "gpu = 0\n\n\ndef f(x, device):\n    x.to(device)\n    f(x, device)\n\n\nf(x, other)\n"
    assert migrate(f"import torch\n{code}").findings == ()
