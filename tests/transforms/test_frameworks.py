"""Frameworks that train for the script: left alone, and said so once."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, findings, migrate, run_only

from xla_transforms.engine import migrate_program
from xla_transforms.settings import Settings

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


@pytest.mark.parametrize("argument", ["max_epochs=1", 'accelerator="auto"', '**{"max_epochs": 1}'])
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


# ---- engines that do the steps

TRAINS = """
model = engine.cuda()
for x in loader:
    loss = model(x.cuda()).sum()
    loss.backward()
    optimizer.step()
"""
ENGINES = [
    ("import deepspeed", "deepspeed.initialize(model=net)"),
    ("import horovod.torch as hvd", "hvd.init()"),
    ("import smdistributed.dataparallel.torch.distributed as dist", "dist.init_process_group()"),
]


@pytest.mark.parametrize(("imported", "call"), ENGINES)
def test_a_program_whose_steps_an_engine_does_is_left_whole(imported: str, call: str) -> None:
    outcome = check_noop(f"import torch\n{imported}\n\ndef main():\n    engine = {call}\n{TRAINS}\nmain()\n")
    assert [(f.code, f.severity.label, f.span.line) for f in outcome.findings] == [("XLA922", "error", 5)]


@pytest.mark.parametrize(("imported", "call"), ENGINES)
def test_a_program_that_can_do_without_the_engine_is_migrated(imported: str, call: str) -> None:
    once = f"import torch\n{imported}\n\ndef start():\n    {call}\n\nif args.engine:\n    start()\n{TRAINS}"
    twice = f"import torch\n{imported}\n\nif args.engine:\n    {call}\n{TRAINS}"
    for code in (once, twice):
        assert "model = engine.to(" in migrate(code).data.decode()


def test_an_engine_below_the_main_guard_is_no_choice() -> None:
    guard = 'if __name__ == "__main__":'
    code = f"import torch\nimport deepspeed\n{guard}\n    deepspeed.initialize(net.cuda())\n"
    assert [f.code for f in check_noop(code).findings] == ["XLA922"]


def test_files_beside_an_engine_are_left_with_it() -> None:
    files = {
        "start.py": b"import deepspeed\nimport model\ndeepspeed.initialize(model.net)\n",
        "model.py": b"import torch\nnet = torch.nn.Linear(1, 1).cuda()\n",
    }
    outcomes = migrate_program(files)
    assert all(not outcome.changes for outcome in outcomes.values())
    assert [[f.code for f in outcome.findings] for outcome in outcomes.values()] == [["XLA922"], ["XLA922"]]


@pytest.mark.parametrize(
    "argument",
    ['strategy="ddp"', "strategy=DDPStrategy()", "precision=16", 'precision="16-mixed"',
     "sync_batchnorm=True"],
)  # fmt: skip
def test_lightning_that_is_told_what_xla_refuses(argument: str) -> None:
    code = f"import torch\nimport lightning as L\ntrainer = L.Trainer({argument})\n"
    assert findings(code, "frameworks") == [("XLA922", 3)]


@pytest.mark.parametrize(
    "argument",
    ['strategy="auto"', 'precision="16-true"', "sync_batchnorm=False", "devices=1", "devices=[0]",
     'devices="auto"', 'accelerator="tpu", devices=4'],
)  # fmt: skip
def test_lightning_that_is_told_what_xla_takes(argument: str) -> None:
    assert findings(f"import lightning as L\nL.Trainer({argument})\n", "frameworks") == [("XLA921", 2)]


ACCELERATOR = """\
import argparse
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--chosen", default="no", choices=["no", "bf16"])
parser.add_argument("--free", default=None)
parser.add_argument("--half", default="no", choices=["no", "fp16"])
args = parser.parse_args()
accelerator = Accelerator({})
"""


@pytest.mark.parametrize(
    "told",
    [
        "deepspeed_plugin=None",
        "fsdp_plugin=None, megatron_lm_plugin=None",
        'dynamo_backend="no"',
        "dynamo_backend=None",
        "mixed_precision=args.chosen",
        'mixed_precision="bf16" if args.free else "no"',
        'rng_types=["torch", "xla"]',
        "kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)]",
    ],
)
def test_what_accelerate_may_be_told_on_xla_is_no_finding(told: str) -> None:
    found = check_noop(ACCELERATOR.format(told), "frameworks").findings
    assert [f.code for f in found] == ["XLA921"]


@pytest.mark.parametrize(
    ("told", "severity", "word"),
    [
        ("deepspeed_plugin=plugin", "error", "each device holds the whole model"),
        ("deepspeed_plugin=plugin if args.free else None", "error", "DeepSpeed"),
        ("fsdp_plugin=plugin", "error", "no gradients are reduced"),
        ("megatron_lm_plugin=plugin", "error", "Megatron"),
        ("parallelism_config=plugin", "warning", "shards nothing"),
        ('dynamo_backend="inductor"', "warning", "Dynamo"),
        ("dynamo_plugin=plugin", "warning", "Dynamo"),
        ('rng_types=["cuda"]', "error", "generator"),
        ('mixed_precision="fp8"', "warning", "refuses fp8"),
        ("mixed_precision=args.half", "warning", 'may be "fp16"'),
        ('mixed_precision="fp16" if args.free else "no"', "warning", 'may be "fp16"'),
        ("mixed_precision=args.free", "info", 'may be "fp16"'),
        ("**{'fsdp_plugin': plugin}", "error", "no gradients are reduced"),
        ("**dict(fsdp_plugin=plugin)", "error", "no gradients are reduced"),
        ("**load()", "info", "not known here"),
    ],
)
def test_what_accelerate_is_told_that_xla_passes_over(told: str, severity: str, word: str) -> None:
    found = [f for f in check_noop(ACCELERATOR.format(told), "frameworks").findings if f.code == "XLA922"]
    assert [f.severity.label for f in found] == [severity]
    assert word in found[0].message


def test_float16_stays_where_the_devices_are_gpus() -> None:
    code = ACCELERATOR.format('mixed_precision="fp16"')
    assert [f.code for f in check_noop(code, settings=Settings(target="sagemaker")).findings] == ["XLA921"]


def test_accelerate_counts_processes() -> None:
    code = LOOP.replace("accelerator = Acc", "acc = Acc").replace("accelerator.", "acc.")
    found = check_noop(code + "n = torch.cuda.device_count()\n").findings
    assert [(f.code, "acc.num_processes" in (f.advice or "")) for f in found if f.code != "XLA921"] == [
        ("XLA922", True)
    ]


def test_accelerate_that_is_told_float16() -> None:
    code = LOOP.replace("Accelerator()", "Accelerator(mixed_precision='fp16')")
    assert [f.code for f in check_noop(code).findings] == ["XLA921", "XLA922"]


@pytest.mark.parametrize(
    "argument", ["devices=4", "devices=-1", "devices=[0, 1]", 'devices="0,1"', 'precision="bf16"']
)
def test_lightning_that_is_told_of_gpus_without_their_name(argument: str) -> None:
    assert findings(f"import lightning as L\nL.Trainer({argument})\n", "frameworks") == [("XLA922", 2)]


def test_all_that_lightning_is_told_is_looked_at_beside_the_accelerator() -> None:
    told = ("accelerator='gpu'", "precision=16", "strategy='ddp'")
    code = "import lightning as L\nL.Trainer(\n    " + ",\n    ".join(told) + ")\n"
    assert findings(code, "frameworks") == [("XLA922", 3), ("XLA922", 4), ("XLA922", 5)]


def test_what_lightning_is_told_through_a_variable_and_by_two_stars() -> None:
    code = "import lightning as L\nkind = 'gpu'\nmore = dict(precision=16)\n"
    code += "L.Trainer(accelerator=kind, **more)\n"
    assert findings(code, "frameworks") == [("XLA922", 3), ("XLA922", 4)]


@pytest.mark.parametrize(
    "made",
    [
        "Trainer(accelerator=args.kind)",
        "Trainer(**args)",
        "Trainer.from_argparse_args(args)",
        "cli.LightningCLI(Net)",
    ],
)
def test_lightning_that_is_told_from_outside(made: str) -> None:
    outcome = check_noop(f"import pytorch_lightning as pl\npl.{made}\n", "frameworks")
    assert [(f.code, f.severity.label) for f in outcome.findings] == [("XLA922", "info")]


COUNTING = "import torch\nimport lightning as L\n{0}\nL.Trainer(devices={1})\n"
COUNT = "torch.cuda.device_count()"


@pytest.mark.parametrize("devices", [COUNT, f"{COUNT} if torch.cuda.is_available() else 1"])
def test_lightning_counts_the_devices_itself(devices: str) -> None:
    check_transformed(COUNTING.format("", devices), COUNTING.format("", '"auto"'))


def test_a_count_before_lightning_starts_its_processes_is_left() -> None:
    code = COUNTING.format(f"lr = 0.1 * {COUNT}", 1)
    assert COUNT in run_only(code)
    assert ("XLA922", 3) in findings(code)


def test_a_count_for_another_trainer_is_asked_of_the_runtime() -> None:
    code = COUNTING.replace("lightning as L", "ours as L").format("", COUNT)
    assert "devices=xr.world_size()" in run_only(code)


def test_loops_around_fabric_stay_as_they_are() -> None:
    code = LOOP.replace("from accelerate import Accelerator", "import lightning as L")
    code = code.replace("Accelerator()", "L.Fabric(accelerator='cuda')").replace(".prepare(", ".setup(")
    assert [f.code for f in check_noop(code).findings] == ["XLA922"]
