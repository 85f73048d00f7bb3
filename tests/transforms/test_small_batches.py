"""Batch norms over few rows."""

from __future__ import annotations

import pytest
from helpers import findings, migrate

from xla_transforms.engine import migrate_program

CODE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
net = nn.Sequential(nn.Linear(2, 2), nn.{norm}(2)).cuda()
{before}
for x in DataLoader(torch.rand(64, 2), {size}):
    net(x.cuda()).sum().backward()
"""


def told(size: str, norm: str = "BatchNorm1d", before: str = "") -> list[tuple[str, int]]:
    return findings(CODE.format(norm=norm, before=before, size=size), "small_batches")


@pytest.mark.parametrize("size", ["17", "batch_size=64", "batch_size=given", "batch_size=1", "**options"])
def test_large_batches_and_those_that_are_not_known(size: str) -> None:
    assert told(size) == []


@pytest.mark.parametrize("norm", ["BatchNorm2d", "LayerNorm"])
def test_other_norms_see_more_or_keep_nothing(norm: str) -> None:
    assert told("8", norm) == []


def test_an_evaluation_keeps_nothing() -> None:
    code = CODE.format(norm="BatchNorm1d", before="", size="8").replace(".sum().backward()", "")
    assert findings(code, "small_batches") == []


def test_a_loader_of_another_file_is_told_where_the_loop_takes_it() -> None:
    made = "DataLoader(torch.rand(64, 2), 8)"
    head = "import torch\nfrom torch.utils.data import DataLoader\n"
    train = CODE.format(norm="BatchNorm1d", before="import data", size="8").replace(made, "data.make()")
    files = {"data.py": f"{head}\ndef make():\n    return {made}\n".encode(), "train.py": train.encode()}
    found = migrate_program(files)
    assert not any(one.failed for one in found.values())
    codes = [(path, f.span.line) for path, one in found.items() for f in one.findings if f.code == "XLA267"]
    assert codes == [("train.py", 6)]


def test_small_batches_are_told() -> None:
    assert told("8") == [("XLA267", 6)]
    assert told("batch_size=SIZE", before="SIZE = 16") == [("XLA267", 6)]
    code = CODE.format(norm="BatchNorm1d", before="", size="batch_size=10")
    (message,) = [f.message for f in migrate(code, "small_batches").findings]
    assert message == "a BatchNorm1d over 10 rows keeps 9/10 of the variance that PyTorch keeps"


def test_a_loader_of_another_file_is_told_where_it_is_drawn_from() -> None:
    head = "import torch\nfrom torch.utils.data import DataLoader\n"
    files = {
        "data.py": head + "# loaders\n" * 99 + "loader = DataLoader(torch.rand(64, 2), 8)\n",
        "train.py": head + "from data import loader\nnet = torch.nn.BatchNorm1d(2).cuda()\n"
        "for x in loader:\n    net(x.cuda()).sum().backward()\n",
    }  # fmt: skip
    outcomes = migrate_program({path: code.encode() for path, code in files.items()})
    found = [(p, f.code, f.span.line) for p, o in outcomes.items() for f in o.findings if f.code == "XLA267"]
    assert found == [("train.py", "XLA267", 5)]
