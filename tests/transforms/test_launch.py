"""Starting the processes."""

from __future__ import annotations

from helpers import check_noop, check_transformed, findings
from replicated import IMPORTS, spawned

GPU = 'device = torch.device("cuda")\n'


def test_processes_that_do_not_train_together_are_started_as_before() -> None:
    code = "import torch\nimport torch.multiprocessing as mp\n"
    check_noop(code + GPU + "mp.spawn(f, nprocs=2)\n", "launch")


def test_a_main_guard_that_joins_nothing_stays() -> None:
    check_noop("import torch\n" + GPU + 'if __name__ == "__main__":\n    main()\n', "launch")


def test_an_unknown_function_is_told() -> None:
    code = IMPORTS + GPU + "dist.init_process_group('nccl')\nmp.spawn(other, nprocs=2)\n"
    assert findings(code, "launch") == [("XLA163", 8)]


def test_spawn_becomes_launch_and_nobody_counts_processes() -> None:
    code = spawned("print(epochs)").replace("world_size):", "world_size, epochs):")
    code = code.replace(", world_size=world_size", "").replace("args=(n,)", "args=(n, 3)")
    expected = code.replace("import torch.multiprocessing as mp\n", "")
    expected = expected.replace("rank, world_size, epochs", "rank, epochs")
    expected = expected.replace("    n = torch.cuda.device_count()\n", "")
    spawn, launch = "mp.spawn(worker, args=(n, 3), nprocs=n)", "torch_xla.launch(worker, args=(3,))"
    expected = expected.replace(spawn, launch)
    check_transformed(code, expected.replace("Sampler\n", "Sampler\nimport torch_xla\n", 1), "launch")


def test_a_world_size_that_is_still_read_is_asked_for() -> None:
    code = spawned("print(world_size)")
    expected = code.replace("import torch.multiprocessing as mp\n", "")
    expected = expected.replace("(rank, world_size):", "(rank):\n    world_size = xr.world_size()")
    expected = expected.replace("    n = torch.cuda.device_count()\n", "")
    expected = expected.replace("mp.spawn(worker, args=(n,), nprocs=n)", "torch_xla.launch(worker)")
    expected = expected.replace("Sampler\n", "Sampler\nimport torch_xla\nimport torch_xla.runtime as xr\n", 1)
    check_transformed(code, expected, "launch")
