"""Schedules that count steps, and learning rates that go by the number of replicas."""

from __future__ import annotations

import pytest
from helpers import findings, migrate
from replicated import launched, spawned

from xla_transforms.settings import Settings

REPLICAS = Settings(distributed=True)
SCRIPT = """\
import torch
from torch.optim.lr_scheduler import *
from torch.utils.data import DataLoader, TensorDataset
from transformers import get_linear_schedule_with_warmup

LIMIT = 1000
data = TensorDataset(torch.randn(64, 4))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)



def warm(step):
    return min(1.0, float(step + 1) / LIMIT)


{made}
for epoch in range(3):
    for x in loader:
        optimizer.zero_grad()
        model(x[0].cuda()).mean().backward()
        optimizer.step()
{steps}
"""
BATCH, EPOCH = "        schedule.step()", "    schedule.step()"


def told(schedule: str, steps: str = BATCH) -> list[tuple[str, str]]:
    """Codes and messages about a schedule, which steps once a batch unless said otherwise."""
    code = SCRIPT.format(made=f"schedule = torch.optim.lr_scheduler.{schedule}", steps=steps)
    code = code.replace("lr_scheduler.get_", "get_").replace("torch.optim.get_", "get_")
    found = migrate(code, "schedules", settings=REPLICAS).findings
    return [(f.code, f.message) for f in found]


@pytest.mark.parametrize(
    "schedule",
    [
        "OneCycleLR(optimizer, 0.1, total_steps=3 * len(loader))",
        "OneCycleLR(optimizer, 0.1, epochs=3, steps_per_epoch=len(loader))",
        "CosineAnnealingLR(optimizer, T_max=len(loader) * 3)",
        "ReduceLROnPlateau(optimizer)",
        "LambdaLR(optimizer, lambda step: min(1.0, step / (3 * len(loader))))",
        "LambdaLR(optimizer, lambda step: 1.0 if going else 0.1)",
        "get_linear_schedule_with_warmup(optimizer, len(loader), 3 * len(loader))",
    ],
)
def test_a_schedule_that_counts_by_the_loader_is_right(schedule: str) -> None:
    assert told(schedule) == []


@pytest.mark.parametrize("schedule", ["StepLR(optimizer, 10)", "CosineAnnealingLR(optimizer, T_max=3)"])
def test_a_schedule_that_counts_epochs_is_right(schedule: str) -> None:
    assert told(schedule, EPOCH) == []


def test_one_process_counts_as_it_did() -> None:
    code = SCRIPT.format(made="schedule = StepLR(optimizer, 10)", steps=BATCH)
    assert findings(code, "schedules") == []


@pytest.mark.parametrize("steps", [BATCH, EPOCH])
def test_a_schedule_that_counts_by_the_data_is_told(steps: str) -> None:
    message = "it counts steps by len(data): each of N replicas takes an N-th of them"
    assert told("OneCycleLR(optimizer, 0.1, total_steps=len(data) // 8)", steps) == [("XLA175", message)]


@pytest.mark.parametrize(
    ("schedule", "count", "fewer"),
    [
        ("StepLR(optimizer, 200)", "200", ", 50 on 4 replicas"),
        ("StepLR(optimizer, step_size=LIMIT)", "LIMIT = 1000", ", 250 on 4 replicas"),
        ("OneCycleLR(optimizer, 0.1, 3 * LIMIT)", "3 * LIMIT = 3000", ", 750 on 4 replicas"),
        ("MultiStepLR(optimizer, [10, 20])", "[10, 20]", ""),
        ("LambdaLR(optimizer, lambda step: min(1.0, step / 1000))", "1000", ", 250 on 4 replicas"),
        ("LambdaLR(optimizer, lr_lambda=lambda s: int(s < LIMIT))", "LIMIT = 1000", ", 250 on 4 replicas"),
        ("LambdaLR(optimizer, warm)", "LIMIT = 1000", ", 250 on 4 replicas"),
        ("get_linear_schedule_with_warmup(optimizer, 40, 3 * len(loader))", "40", ", 10 on 4 replicas"),
    ],
)  # fmt: skip
def test_a_schedule_that_counts_a_fixed_number_is_told(schedule: str, count: str, fewer: str) -> None:
    ((code, message),) = told(schedule)
    assert code == "XLA179"
    assert message.startswith(f"it counts {count} steps with the batches of one process")
    assert message.endswith("for the same data" + fewer)


@pytest.mark.parametrize(
    "schedule", ["ExponentialLR(optimizer, 0.99)", "LambdaLR(optimizer, lambda step: 0.99**step)"]
)
def test_a_schedule_that_multiplies_with_each_step_is_told(schedule: str) -> None:
    message = "each step of one process multiplies: replicas take an N-th of the steps for the same data"
    assert told(schedule) == [("XLA179", message)]
    assert told(schedule, EPOCH) == []


@pytest.mark.parametrize("rate", ["0.1", "0.1 * 2", "args.lr", "rate(limit)", "math.sqrt(0.1)"])
def test_a_learning_rate_of_its_own_is_no_matter(rate: str) -> None:
    assert findings(launched(f"torch.optim.SGD(model.parameters(), lr={rate})"), "schedules") == []


def test_a_learning_rate_that_goes_by_the_replicas_is_told() -> None:
    lines = ("lr = 0.1 * dist.get_world_size()", "torch.optim.SGD(model.parameters(), lr)")
    (found,) = migrate(launched(*lines), "schedules").findings
    assert (found.code, found.severity.label) == ("XLA178", "info")
    assert found.message == "the learning rate lr follows the replicas: 0.1 on 1, 0.4 on 4"


@pytest.mark.parametrize("change", ["args.lr *= ", "args.lr = args.lr * "])
def test_an_option_that_is_multiplied_by_the_replicas_is_told(change: str) -> None:
    before = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr', default=0.1)\n"
    change += "dist.get_world_size()"
    lines = ("args = parser.parse_args()", change, "torch.optim.SGD(model.parameters(), lr=args.lr)")
    (found,) = migrate(launched(*lines, before=before), "schedules").findings
    assert found.message == "the learning rate args.lr follows the replicas: 0.1 on 1, 0.4 on 4"


def test_a_learning_rate_that_goes_by_the_processes_of_a_spawn_is_told() -> None:
    code = spawned("torch.optim.AdamW(model.parameters(), lr=1e-3 / world_size)")
    (found,) = migrate(code, "schedules").findings
    assert found.message.endswith("0.001 on 1, 0.00025 on 4")


@pytest.mark.parametrize(
    ("rate", "numbers"),
    [
        ("0.1 * math.sqrt(world)", "0.1 on 1, 0.2 on 4"),
        ("0.1 * world ** 0.5", "0.1 on 1, 0.2 on 4"),
        ("min(0.3, 0.1 * world)", "0.1 on 1, 0.3 on 4"),
        ("float(args.lr) * world", "on 4 it is 4 times that on 1"),
        ("config['lr'] * math.sqrt(world)", "on 4 it is 2 times that on 1"),
    ],
)
def test_a_learning_rate_that_is_computed_from_the_replicas_is_told(rate: str, numbers: str) -> None:
    lines = ("world = dist.get_world_size()", f"torch.optim.SGD(model.parameters(), lr={rate})")
    (found,) = migrate(launched(*lines, before="import math\n"), "schedules").findings
    assert found.message == f"the learning rate {rate} follows the replicas: {numbers}"


@pytest.mark.parametrize("rate", ["scaled(world)", "0.1 if world < 8 else 0.4", "9**9**9 * world"])
def test_a_learning_rate_of_which_no_number_is_known_is_told(rate: str) -> None:
    lines = ("world = dist.get_world_size()", f"lr = {rate}", "torch.optim.SGD(model.parameters(), lr=lr)")
    (found,) = migrate(launched(*lines), "schedules").findings
    assert found.message == "the learning rate lr follows the replicas"


def test_a_learning_rate_that_an_option_makes_follow_the_replicas_is_told() -> None:
    lines = ("lr = 0.1", "if scale:", "    lr *= dist.get_world_size()")
    (found,) = migrate(launched(*lines, "torch.optim.SGD(model.parameters(), lr=lr)"), "schedules").findings
    assert found.message == "the learning rate lr follows the replicas"
