"""Processes that run a method of an object, or a function with options bound by ``functools.partial``."""

from __future__ import annotations

import pytest
from helpers import findings, migrate

TOP = """\
import functools
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
"""
BODY = """\
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:2345", rank=rank, world_size=size)
    model = DDP(nn.Linear(4, 3).cuda(rank), device_ids=[rank])
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    for step in range(3):
        loss = model(torch.randn(8, 4).cuda(rank)).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
MAIN = """\
if __name__ == "__main__":
    n = torch.cuda.device_count()
    {}
"""


def function(start: str, head: str = "def work(rank, size, lr):") -> str:
    return f"{TOP}\n{head}\n{BODY}\n{MAIN.format(start)}"


def owned(start: str, *, decorator: str = "", own: str = "self, ", made: str = "pass") -> str:
    body = "".join(f"    {line}\n" for line in BODY.splitlines())
    constructor = f"    def __init__(self):\n        {made}\n\n"
    head = f"class Trainer:\n{constructor}{decorator}    def work({own}rank, size, lr):\n"
    return f"{TOP}\n{head}{body}\n{MAIN.format(start)}"


@pytest.mark.parametrize(
    "start",
    [
        "mp.spawn(functools.partial(work, size=n, lr=0.1), nprocs=n)",
        "mp.spawn(functools.partial(work, lr=0.1, size=n), nprocs=n)",  # in the order of the parameters
        "mp.spawn(functools.partial(work, lr=0.1), args=(n,), nprocs=n)",
        "run = functools.partial(work, size=n, lr=0.1)\n    mp.spawn(run, nprocs=n)",
    ],
)
def test_what_a_partial_binds_is_handed_to_the_launch(start: str) -> None:
    text = migrate(function(start)).code
    assert text.endswith('if __name__ == "__main__":\n    torch_xla.launch(work, args=(0.1,))\n')
    assert "def work(rank, lr):\n" in text
    assert "import functools" not in text


@pytest.mark.parametrize(
    "start",
    [
        "mp.spawn(functools.partial(work, 0.1), args=(n,), nprocs=n)",  # 0.1 stands where the number did
        "mp.spawn(functools.partial(work, lr=0.1, **more), args=(n,), nprocs=n)",
        "mp.spawn(functools.partial(work, other=0.1), args=(n,), nprocs=n)",
        "run = functools.partial(work, lr=0.1)\n    mp.spawn(run, args=(n,), nprocs=n)\n    print(run)",
        "run = kept = functools.partial(work, lr=0.1)\n    mp.spawn(run, args=(n,), nprocs=n)",
        "run = functools.partial(work, lr=n)\n    n = 2\n    mp.spawn(run, args=(n,), nprocs=n)",
    ],
)
def test_a_partial_whose_values_are_not_those_behind_the_number_is_told(start: str) -> None:
    assert ("XLA163", 9) in findings(function(start))
    assert "mp.spawn(" in migrate(function(start)).code


def test_values_with_a_gap_between_them_are_told() -> None:
    code = function(
        "mp.spawn(functools.partial(work, lr=0.1), nprocs=n)", "def work(rank, size=2, lr=0.5):"
    )
    assert ("XLA163", 9) in findings(code)


@pytest.mark.parametrize(
    ("start", "launched"),
    [
        ("mp.spawn(Trainer().work, args=(n, 0.1), nprocs=n)", "Trainer().work"),
        ("t = Trainer()\n    mp.spawn(t.work, args=(n, 0.1), nprocs=n)", "t.work"),
        ("t = Trainer()\n    mp.spawn(functools.partial(t.work, size=n, lr=0.1), nprocs=n)", "t.work"),
    ],
)
def test_a_method_of_an_object_is_launched_with_it(start: str, launched: str) -> None:
    text = migrate(owned(start)).code
    assert text.endswith(f"    torch_xla.launch({launched}, args=(0.1,))\n")
    assert "    def work(self, rank, lr):\n" in text
    assert "model = nn.Linear(4, 3).to(device)" in text


def test_a_static_method_has_no_object() -> None:
    start = "mp.spawn(Trainer.work, args=(n, 0.1), nprocs=n)"
    text = migrate(owned(start, decorator="    @staticmethod\n", own="")).code
    assert text.endswith("    torch_xla.launch(Trainer.work, args=(0.1,))\n")
    assert "    def work(rank, lr):\n" in text


def test_an_object_that_touches_the_device_before_the_launch_is_told() -> None:
    start = "mp.spawn(Trainer().work, args=(n, 0.1), nprocs=n)"
    assert findings(owned(start, made="self.model = nn.Linear(4, 3).cuda()")) == [("XLA168", 10)]


def test_a_method_of_a_class_within_a_function_is_told() -> None:
    whole = owned("").partition(MAIN.format(""))[0].removeprefix(TOP)
    inner = "".join(f"    {line}\n" if line else "\n" for line in whole.splitlines())
    start = "    mp.spawn(Trainer().work, args=(n, 0.1), nprocs=n)\n"
    code = f"{TOP}\ndef main(n):\n{inner}\n{start}\n\nmain(2)\n"
    told = [f for f in migrate(code).findings if f.code == "XLA163"]
    assert [f.message.partition(", ")[2] for f in told] == [
        "run by the processes, stands in a function: it cannot be pickled"
    ]
