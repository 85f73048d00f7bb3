"""Calls of torch.distributed where a framework starts the processes: it joins no group on XLA."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings, migrate

HEAD = "import torch.distributed as dist\n"
ACCELERATE = HEAD + "from accelerate import Accelerator\n\nacc = Accelerator()\n{}\n"
TRAINER = """\
import torch.distributed as dist
from transformers import Trainer, TrainingArguments

coach = Trainer(model, TrainingArguments("out"))
{}
"""
MODULE = """\
import torch.distributed as dist
from lightning import Callback, LightningModule


class Net(LightningModule):
    def on_fit_end(self):
        {}


class Told(Callback):
    def on_fit_end(self, trainer, module):
        dist.barrier()
"""
FABRIC = HEAD + 'from lightning import Fabric\n\nfabric = Fabric(accelerator="tpu")\n{}\n'


@pytest.mark.parametrize("call", ["dist.is_initialized()", "dist.is_available()", "acc.wait_for_everyone()"])
def test_what_needs_no_group_is_no_finding(call: str) -> None:
    assert findings(ACCELERATE.format(call), "framework_groups") == []


def test_a_group_that_the_script_joins_itself_is_no_finding() -> None:
    code = ACCELERATE.format("dist.init_process_group('nccl')\ndist.barrier()")
    assert findings(code, "framework_groups") == []


def test_a_program_without_a_framework_is_no_finding() -> None:
    code = ACCELERATE.format("dist.barrier()").replace("from accelerate", "from ours")
    assert findings(code, "framework_groups") == []


def test_something_of_lightning_that_it_does_not_run_is_no_finding() -> None:
    code = "import torch.distributed as dist\nfrom lightning import seed_everything\n\ndist.barrier()\n"
    assert findings(code, "framework_groups", "parts") == [("XLA166", 4)]


@pytest.mark.parametrize(
    ("code", "call", "advice"),
    [
        (ACCELERATE, "dist.barrier()", "write acc.wait_for_everyone()"),
        (ACCELERATE, "dist.get_rank()", "write acc.process_index"),
        (ACCELERATE, "dist.all_reduce(loss)", 'write acc.reduce(tensor, reduction="sum")'),
        (ACCELERATE, "dist.destroy_process_group()", "leave it out: there is no group"),
        (ACCELERATE, "dist.new_group([0])", "acc has what the processes share"),
        (TRAINER, "dist.barrier()", "write trainer.accelerator.wait_for_everyone()"),
        (FABRIC, "dist.barrier()", "write fabric.barrier()"),
        (FABRIC, "dist.get_world_size()", "write fabric.world_size"),
    ],
)
def test_what_asks_for_a_group_is_told_what_the_framework_has(code: str, call: str, advice: str) -> None:
    outcome = check_noop(code.format(call), "framework_groups", "parts")
    assert [(f.code, f.span.line, f.advice) for f in outcome.findings] == [("XLA940", 5, advice)]


def test_modules_and_callbacks_of_lightning_are_told_of_the_strategy() -> None:
    outcome = check_noop(MODULE.format("dist.barrier()"), "framework_groups", "parts")
    assert [(f.span.line, f.advice) for f in outcome.findings] == [
        (7, "write self.trainer.strategy.barrier()"),
        (12, "write trainer.strategy.barrier()"),
    ]


@pytest.mark.parametrize(
    "line", ["if dist.is_initialized(): dist.barrier()", "print(dist.is_initialized() and dist.get_rank())"]
)
def test_what_asks_for_the_group_first_is_passed_by(line: str) -> None:
    (found,) = migrate(ACCELERATE.format(line), "framework_groups").findings
    assert (found.severity.label, found.message.endswith("it is passed by")) == ("warning", True)
