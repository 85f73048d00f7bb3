"""Modules that say nothing of GPUs belong to the program that imports them."""

from __future__ import annotations

import pytest

from xla_transforms.engine import migrate_program

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
