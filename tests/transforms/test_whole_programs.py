"""Modules that say nothing of GPUs belong to the program that imports them."""

from __future__ import annotations

import pytest

from xla_transforms.context import Context
from xla_transforms.engine import migrate_program
from xla_transforms.passes import checkpoints

_TRAIN = b"""\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from helpers import %s


def main():
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(2, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.ones(3, 1, 2).cuda():
        optimizer.zero_grad()
        model(x).sum().backward()
        %s


if __name__ == "__main__":
    main()
"""
_RANKS = b"""\
import torch.distributed as dist


def is_main():
    if not dist.is_initialized():
        return True
    return dist.get_rank() == 0
"""
_STEP = b"import torch\n\n\ndef advance(optimizer: torch.optim.Optimizer):\n    optimizer.step()\n"


def _helper(name: bytes, use: bytes, helper: bytes) -> str:
    train = _TRAIN % (name, use)
    outcomes = migrate_program({"train.py": train, "helpers.py": helper})
    assert outcomes["train.py"].changes
    assert not outcomes["helpers.py"].findings
    return outcomes["helpers.py"].code


def test_helpers_beside_a_program_without_gpus_stay() -> None:
    train = b"import torch\nfrom helpers import is_main\n\nprint(is_main(), torch.ones(2))\n"
    outcomes = migrate_program({"train.py": train, "helpers.py": _RANKS})
    assert outcomes["helpers.py"].data == _RANKS


def test_a_file_that_nothing_imports_stays() -> None:
    train = b"import torch\n\nmodel = torch.nn.Linear(2, 2).cuda()\n"
    outcomes = migrate_program({"train.py": train, "helpers.py": _RANKS})
    assert outcomes["helpers.py"].data == _RANKS


@pytest.mark.parametrize("helper", [b"import torch\nprint 'python 2'\n", b"rank = (\n"])
def test_a_helper_that_is_not_python_stays(helper: bytes) -> None:
    assert _helper(b"rank", b"optimizer.step()", helper) == helper.decode()


def test_helpers_for_ranks_ask_the_runtime() -> None:
    code = _helper(b"is_main", b"optimizer.step(); print(is_main())", _RANKS)
    assert "    return xr.global_ordinal() == 0\n" in code
    assert "dist" not in code.replace("distributed", "")


def test_ranks_from_the_environment_need_no_torch() -> None:
    helper = b'import os\n\n\ndef is_main():\n    return int(os.environ["RANK"]) == 0\n'
    code = _helper(b"is_main", b"optimizer.step(); print(is_main())", helper)
    assert "    return xr.global_ordinal() == 0\n" in code


def test_a_step_in_a_helper_reduces_gradients() -> None:
    assert "    xm.optimizer_step(optimizer)\n" in _helper(b"advance", b"advance(optimizer)", _STEP)


def test_a_device_in_a_file_of_settings_is_found() -> None:
    train = b"import torch\nimport config\n\nmodel = torch.nn.Linear(2, 2).to(config.DEVICE)\n"
    outcomes = migrate_program({"train.py": train, "config.py": b'DEVICE = "cuda"\n'})
    assert outcomes["config.py"].code == "import torch_xla\n\nDEVICE = torch_xla.device()\n"


def test_a_program_whose_calls_lead_far_is_analysed() -> None:
    steps = "".join(f"\n\ndef step_{n}(x):\n    return step_{n - 1}(x)\n" for n in range(1, 250))
    code = f"import torch\n\n\ndef step_0(x):\n    return x.cuda()\n{steps}\n\nstep_249(net.cuda())\n"
    outcome = migrate_program({"train.py": code.encode()})["train.py"]
    assert not outcome.failed
    assert "return x.to(" in outcome.code


def test_what_a_package_hands_on_belongs_to_those_that_take_it_there() -> None:
    files = {
        "train.py": b"from core import launch, Trainer\n\n\ndef main():\n    Trainer().run()\n\n\n"
        b'if __name__ == "__main__":\n    launch(main)\n',
        "core/__init__.py": b"from .start import launch\nfrom .trainer import Trainer\n",
        "core/start.py": b"import torch.distributed as dist\nimport torch.multiprocessing as mp\n\n\n"
        b'def work(rank, n, main):\n    dist.init_process_group("nccl", rank=rank, world_size=n)\n'
        b"    main()\n"
        b"\n\ndef launch(main):\n    mp.spawn(work, args=(2, main), nprocs=2)\n",
        "core/trainer.py": b"import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n\n\n"
        b"class Trainer:\n    def run(self):\n        model = DDP(torch.nn.Linear(2, 2).cuda())\n",
    }
    outcomes = migrate_program(files)
    assert "torch_xla.launch(work" in outcomes["core/start.py"].code
    assert "xm.broadcast_master_param(model)" in outcomes["core/trainer.py"].code
    assert "DDP" not in outcomes["core/trainer.py"].code


# ---- modules that say nothing of GPUs, ranks or steps

_DATA = b"""\
import torch
from torch.utils.data import DataLoader, TensorDataset


def make_loader():
    return DataLoader(TensorDataset(torch.ones(8, 2)), batch_size=4)
"""
_LOOP = b"""\
import torch
from %s import make_loader

device = torch.device("cuda")
model = torch.nn.Linear(2, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in make_loader():
    x = x.to(device)
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""


def test_a_model_that_a_test_of_its_own_imports_leaves_the_test_alone() -> None:
    model = b"import torch\n\n\ndef make():\n    return torch.nn.Linear(2, 2).cuda()\n"
    test = b"import torch\nfrom model import make\n\ntorch.manual_seed(1)\nprint(make()(torch.ones(2)))\n"
    outcomes = migrate_program({"model.py": model, "test_model.py": test})
    assert outcomes["model.py"].changes
    assert outcomes["test_model.py"].data == test


def test_a_loader_that_another_file_makes() -> None:
    outcomes = migrate_program({"train.py": _LOOP % b"data", "data.py": _DATA})
    assert "for (x,) in pl.MpDeviceLoader(make_loader(), device):" in outcomes["train.py"].code
    assert outcomes["data.py"].data == _DATA


def test_a_loader_that_comes_through_a_package() -> None:
    files = {"train.py": _LOOP % b"feed", "feed/__init__.py": b"from .data import make_loader\n"}
    outcomes = migrate_program({**files, "feed/data.py": _DATA})
    assert "pl.MpDeviceLoader(make_loader(), device)" in outcomes["train.py"].code


def test_a_class_that_steps_behind_a_package() -> None:
    stepper = b"""\
import torch


class Stepper:
    def __init__(self):
        self.model = torch.nn.Linear(2, 2).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def learn(self, x):
        self.optimizer.zero_grad()
        self.model(x.cuda()).sum().backward()
        self.optimizer.step()
"""
    loop = b"import torch\nfrom parts import make\n\nstepper = make()\n"
    loop += b"for x in torch.ones(3, 1, 2):\n    stepper.learn(x)\n"
    package = b"from .stepper import Stepper\n\n\ndef make():\n    return Stepper()\n"
    files = {"train.py": loop, "parts/__init__.py": package, "parts/stepper.py": stepper}
    assert "    stepper.learn(x)\n    torch_xla.sync()\n" in migrate_program(files)["train.py"].code


def test_scripts_that_share_their_data_stay_programs_of_their_own() -> None:
    ranks = b"import torch.distributed as dist\nfrom data import make_loader\n\n" + _TRAIN.replace(
        b"from helpers import %s", b""
    ).replace(b"%s", b"optimizer.step()")
    outcomes = migrate_program({"one.py": _LOOP % b"data", "many.py": ranks, "data.py": _DATA})
    assert "launch" in outcomes["many.py"].code
    assert "reduce" not in outcomes["one.py"].code
    assert "pl.MpDeviceLoader(make_loader(), device)" in outcomes["one.py"].code


def test_a_shared_file_is_left_where_its_programs_want_different_things(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = b"import torch\n\n\ndef save(model, path):\n    torch.save(model.state_dict(), path)\n"
    one = _LOOP % b"data" + b"from store import save\nsave(model, 'x')\n"
    other = one.replace(b"SGD", b"Adam")
    files = {"one.py": one, "other.py": other, "store.py": store, "data.py": _DATA}
    assert "xm.save(" in migrate_program(files)["store.py"].code
    saves = checkpoints.run

    def for_one_of_them(context: Context) -> None:
        if context.program.mentions("SGD"):
            saves(context)

    monkeypatch.setattr(checkpoints, "run", for_one_of_them)
    outcome = migrate_program(files)["store.py"]
    assert outcome.data == store
    assert [(f.code, f.span.line) for f in outcome.findings] == [("XLA009", 5)]
