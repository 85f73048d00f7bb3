"""apex's fused optimizers."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, findings

from xla_transforms.settings import Settings

HEAD = "import torch\n"
IMPORT = "from apex.optimizers import FusedAdam\n"
BODY = "net = torch.nn.Linear(1, 1).cuda()\n"


def becomes(given: str, written: str, settings: Settings | None = None) -> None:
    code = f"{HEAD}{IMPORT}{BODY}optimizer = FusedAdam({given})\n"
    expected = f"{HEAD}{BODY}optimizer = {written}\n"
    check_transformed(code, expected, "fused_optimizers", "syncfree", "packages", settings=settings)
    assert findings(code, "fused_optimizers", "syncfree", "packages") == []


@pytest.mark.parametrize(
    "given",
    [
        "net.parameters(), 1e-3, False",
        "net.parameters(), bias_correction=False",
        "net.parameters(), amsgrad=True",
        "net.parameters(), adam_w_mode=MODE",
        "net.parameters(), **options",
        "net.parameters(), master_weights=True",
        "net.parameters(), other=1",
    ],
)
def test_what_is_not_understood_stays_with_its_findings(given: str) -> None:
    code = f"{HEAD}{IMPORT}{BODY}optimizer = FusedAdam({given})\n"
    check_noop(code, "fused_optimizers", "syncfree", "packages")
    assert findings(code, "fused_optimizers", "syncfree", "packages") == [("XLA951", 2), ("XLA405", 4)]


def test_the_default_is_adamw_that_does_not_decay() -> None:
    becomes("net.parameters(), lr=1e-3", "torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.0)")
    becomes("net.parameters(), 1e-3", "torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.0)")


def test_a_decay_of_its_own_is_kept() -> None:
    becomes("net.parameters(), weight_decay=W", "torch.optim.AdamW(net.parameters(), weight_decay=W)")


def test_the_other_mode_is_adam() -> None:
    becomes("net.parameters(), adam_w_mode=False", "torch.optim.Adam(net.parameters())")


def test_what_torch_does_anyway_is_left_out() -> None:
    given = "params=net.parameters(), bias_correction=True, set_grad_none=True, betas=(0.9, 0.95)"
    becomes(given, "torch.optim.AdamW(params=net.parameters(), betas=(0.9, 0.95), weight_decay=0.0)")


def test_other_names_of_the_package_are_still_told() -> None:
    code = f"{HEAD}from apex.optimizers import FusedAdam, FusedLAMB\n{BODY}a = FusedAdam(net.parameters())\n"
    code += "b = FusedLAMB(net.parameters())\n"
    assert findings(code, "fused_optimizers", "syncfree", "packages") == [("XLA951", 2), ("XLA405", 5)]


@pytest.mark.parametrize("home", ["deepspeed.ops.adam", "deepspeed.ops.adam.fused_adam"])
def test_that_of_deepspeed_takes_the_same(home: str) -> None:
    code = f"{HEAD}from {home} import FusedAdam\n{BODY}optimizer = FusedAdam(net.parameters(), lr=1e-3)\n"
    written = "torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.0)"
    check_transformed(code, f"{HEAD}{BODY}optimizer = {written}\n", "fused_optimizers", "packages")
    assert findings(code, "fused_optimizers", "packages", "frameworks") == []


def test_that_of_deepspeed_for_the_cpu_is_told() -> None:
    head = f"{HEAD}from deepspeed.ops.adam import DeepSpeedCPUAdam\n"
    code = f"{head}{BODY}a = DeepSpeedCPUAdam(net.parameters())\n"
    assert findings(code, "fused_optimizers", "syncfree", "packages") == [("XLA951", 2), ("XLA405", 4)]
