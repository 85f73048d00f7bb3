"""ELU, SELU and CELU."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, findings, migrate

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

"""
NET = "net = nn.Linear(2, 2).cuda()\n"
PASS = "exponential_units"


@pytest.mark.parametrize(
    "line",
    [
        "F.elu(x, inplace=True)",
        "F.elu(x, 0.5, True)",
        "F.selu(x, True)",
        "F.elu_(x)",
        "nn.ELU(inplace=True)",
        "isinstance(m, nn.ELU)",
        "ours.elu(x)",
        "F.gelu(x)",
        "nn.GELU()",
    ],
)
def test_what_is_right_stays(line: str) -> None:
    code = f"{HEAD}import ours\n{NET}y = {line}\n"
    check_noop(code, PASS)
    assert findings(code, PASS) == []


def test_on_the_cpu_all_is_right() -> None:
    check_noop(HEAD + "y = F.elu(x)\n", PASS)


def test_a_class_that_computes_it_by_itself_stays() -> None:
    own = "class Own(nn.ELU):\n    def forward(self, x):\n        return x\n"
    check_noop(HEAD + NET + own, PASS)


@pytest.mark.parametrize("line", ["F.elu(x, inplace=fast)", "F.elu(*given)", "F.celu(x, alpha())"])
def test_what_is_not_understood_is_told(line: str) -> None:
    code = f"{HEAD}{NET}y = {line}\n"
    check_noop(code, PASS)
    assert findings(code, PASS) == [("XLA266", 6)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("F.elu(x)", "torch.nn.functional.elu(x.clone(), inplace=True)"),
        ("F.elu(a + b, alpha=0.5)", "torch.nn.functional.elu((a + b).clone(), 0.5, inplace=True)"),
        ("F.elu(x, 0.5, False)", "torch.nn.functional.elu(x.clone(), 0.5, inplace=True)"),
        ("torch.selu(net(x))", "torch.nn.functional.selu(net(x).clone(), inplace=True)"),
        ("F.celu(x)", "torch.nn.functional.celu(x.clone(), inplace=True)"),
        ("F.celu(x, 2.0)", "torch.nn.functional.elu(x / 2.0, inplace=True) * 2.0"),
    ],
)
def test_functions_work_on_a_copy(line: str, expected: str) -> None:
    check_transformed(f"{HEAD}{NET}y = {line}\n", f"{HEAD}{NET}y = {expected}\n", PASS)


def test_a_product_stays_one_factor() -> None:
    text = migrate(f"{HEAD}{NET}y = F.celu(x, 2.0) ** 2\n", PASS).data.decode()
    assert "y = (torch.nn.functional.elu(x / 2.0, inplace=True) * 2.0) ** 2\n" in text


def test_modules_become_a_class_of_the_scripts_own() -> None:
    code = HEAD + "\nnet = nn.Sequential(nn.Linear(2, 2), nn.ELU(0.5)).cuda()\nlayer = make(nn.ELU)\n"
    check_transformed(
        code,
        HEAD + "\nclass XlaELU(torch.nn.ELU):\n"
        "    # PyTorch/XLA derives it wrongly where it is not computed in place\n"
        "    def forward(self, input):\n"
        "        return torch.nn.functional.elu(input.clone(), self.alpha, inplace=True)\n\n\n"
        "net = nn.Sequential(nn.Linear(2, 2), XlaELU(0.5)).cuda()\nlayer = make(XlaELU)\n",
        PASS,
    )


def test_each_kind_has_a_class() -> None:
    code = HEAD + "net = nn.Sequential(nn.SELU(), nn.CELU(2.0)).cuda()\n"
    text = migrate(code, PASS).data.decode()
    assert "net = nn.Sequential(XlaSELU(), XlaCELU(2.0)).cuda()\n" in text
    assert "        return torch.nn.functional.selu(input.clone(), inplace=True)\n" in text
    assert "        return torch.nn.functional.elu(input / self.alpha, inplace=True) * self.alpha\n" in text
