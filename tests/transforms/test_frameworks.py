"""Frameworks that train for the script: left alone, and said so once."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings

LOOP = """\
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

accelerator = Accelerator()
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=8, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    loss = torch.nn.functional.mse_loss(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
"""


def test_loops_around_accelerate_stay_as_they_are() -> None:
    outcome = check_noop(LOOP)
    assert [(f.code, f.severity.label) for f in outcome.findings] == [("XLA921", "info")]


def test_loops_around_accelerate_stay_where_something_names_cuda() -> None:
    outcome = check_noop(LOOP.replace("print(loss.item())", "print(loss.item(), torch.version.cuda)"))
    assert [f.code for f in outcome.findings] == ["XLA921"]


def test_a_name_of_another_package_is_no_framework() -> None:
    assert findings("import torch\nfrom ours import Accelerator, Trainer\nTrainer(Accelerator())\n") == []


@pytest.mark.parametrize("package", ["lightning", "pytorch_lightning", "lightning.pytorch"])
@pytest.mark.parametrize("argument", ['accelerator="gpu"', "gpus=1", 'accelerator="cuda"'])
def test_lightning_that_names_the_gpu_is_told_to_name_xla(package: str, argument: str) -> None:
    code = f"from {package} import Trainer\ntrainer = Trainer(max_epochs=1, {argument})\n"
    assert findings(code, "frameworks") == [("XLA922", 2)]


@pytest.mark.parametrize("argument", ["max_epochs=1", 'accelerator="auto"'])
def test_lightning_that_chooses_by_itself_needs_nothing(argument: str) -> None:
    code = f"import lightning as L\ntrainer = L.Trainer({argument})\n"
    assert findings(code, "frameworks") == [("XLA921", 2)]


@pytest.mark.parametrize(
    "line",
    ["import horovod.torch as hvd", "import deepspeed", "from fairscale.nn import FSDP", "import ignite"],
)
def test_frameworks_that_are_to_be_replaced_are_named_once(line: str) -> None:
    outcome = check_noop(f"import torch\n{line}\n{line}\n", "frameworks")
    assert [(f.code, f.span.line) for f in outcome.findings] == [("XLA922", 2)]
    assert "https://" in outcome.findings[0].advice


def test_deepspeed_beside_cuda_is_named_by_one_rule_alone() -> None:
    code = "import torch\nimport deepspeed\nx = torch.zeros(1).cuda()\n"
    assert findings(code, "packages", "frameworks") == [("XLA951", 2)]
