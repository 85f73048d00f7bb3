"""Processes that a script starts by itself, in a loop or without waiting in the same call."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, migrate
from replicated import IMPORTS, spawned

from xla_transforms.settings import Settings

SPAWN = "    n = torch.cuda.device_count()\n    mp.spawn(worker, args=(n,), nprocs=n)\n"
LOOP = """\
    processes = []
    for rank in range(2):
        p = mp.Process(target=worker, args=(rank, 2))
        p.start()
        processes.append(p)
    for p in processes:
        p.join()
"""
LAUNCH = "    torch_xla.launch(worker)\n"
MULTIPLE = "import torch.multiprocessing as mp\n"
MODULE = "Sampler\nimport torch_xla\n"


def script(start: str = LOOP, *lines: str, before: str = "") -> str:
    """A script whose main guard starts its processes by ``start``; each runs ``lines``."""
    return spawned("torch.ones(1).cuda()", *lines, before=before).replace(SPAWN, start)


def launched(code: str, start: str, by: str = LAUNCH) -> str:
    """What becomes of the start of a script, and of its function, under the pass ``launch``."""
    code = code.replace(start, by).replace("Sampler\n", MODULE, 1)
    code = code.replace("(rank, world_size):", "(rank):\n    world_size = xr.world_size()")
    code = code.replace("import torch_xla\n", "import torch_xla\nimport torch_xla.runtime as xr\n")
    return code if "mp." in code else code.replace(MULTIPLE, "")


def why(code: str, settings: Settings | None = None) -> str:
    """Why the start of the processes is left; the program is left with it."""
    outcome = migrate(code, settings=settings)
    assert "launch(" not in outcome.code
    assert "_mp_fn" not in outcome.code
    (found,) = [f for f in outcome.findings if f.code == "XLA163"]
    assert found.severity.label == "error"
    return found.message


def test_processes_that_join_no_group_are_started_as_before() -> None:
    function = "\n\ndef worker(rank, n):\n    print(rank)\n\n\ndef main():\n"
    check_noop(IMPORTS + "device = torch.device('cuda')\n" + function + LOOP, "launch")


def test_processes_beside_those_of_a_group_are_started_as_before() -> None:
    start = "    mp.Process(target=other, args=(0, 2)).start()\n"
    code = script(start + SPAWN, before="def other(rank, n):\n    print(rank)\n")
    assert start + LAUNCH in migrate(code, "launch").code


def test_a_loop_of_processes_becomes_a_launch() -> None:
    code = script()
    check_transformed(code, launched(code, LOOP), "launch", rules={"XLA161"})


def test_processes_of_a_context_in_a_function() -> None:
    loop = LOOP.replace("mp.Process", "ctx.Process").replace("processes = []", "processes = list()")
    loop = loop.replace("    for p in processes:\n        p.join()\n", "    [p.join() for p in processes]\n")
    loop = f"    ctx = mp.get_context('spawn')\n{loop}"
    code = script("    main()\n", before=f"def main():\n{loop}\n")
    assert migrate(code, "launch").code == launched(code, loop)


def test_what_all_processes_are_given_stays_and_a_count_goes() -> None:
    loop = LOOP.replace("range(2)", "range(0, size)").replace("(rank, 2)", "(rank, size, 'runs')")
    code = script("    size = 4\n" + loop).replace("(rank, world_size):", "(rank, world_size, place):")
    text = migrate(code, "launch").code
    assert text.endswith('__main__":\n    torch_xla.launch(worker, args=(\'runs\',))\n')
    assert "def worker(rank, place):\n    world_size = xr.world_size()\n" in text


def test_comments_of_the_loops_stay() -> None:
    loop = LOOP.replace("    for p in", "    # wait\n    for p in").replace(".start()", ".start()  # now")
    assert "    # now\n    # wait\n    torch_xla.launch(worker)\n" in migrate(script(loop), "launch").code


def test_a_launcher_outside_calls_what_the_loop_started() -> None:
    text = migrate(script(), settings=Settings(target="sagemaker")).code
    assert "def _mp_fn(index):\n    worker(xm.get_ordinal())\n" in text


@pytest.mark.parametrize("wait", ["    c.join()\n", "    while not c.join():\n        pass\n"])
def test_a_spawn_that_is_waited_for_behind_it(wait: str) -> None:
    start = "    c = mp.spawn(worker, args=(2,), nprocs=2, join=False)\n" + wait
    code = script(start)
    check_transformed(code, launched(code, start), "launch")


def test_a_spawn_that_is_not_waited_for_is_told() -> None:
    start = "    c = mp.spawn(worker, args=(2,), nprocs=2, join=False)\n    print(1)\n    c.join()\n"
    assert why(script(start)) == "the processes are started and not waited for"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("range(2)", "(3, 1)", "not started by a loop over range()"),
        ("range(2)", "range(1, 2)", "not started by a loop over range()"),
        ("(rank, 2)", "(2, rank)", "not their number first"),
        ("(rank, 2)", "(rank, rank + 2)", "differs by more than their number"),
        ("        p.start()\n", "        p.start()\n        print(rank)\n", "more than start them"),
        ("        p.start()\n", "        p.start()\n        p.join()\n", "more than start them"),
        ("    for p in processes:\n        p.join()\n", "", "not waited for"),
        ("        p.join()\n", "        p.join(5)\n", "not waited for"),
        ("        p.join()\n", "        p.join()\n    print(processes)\n", "processes is used for more"),
        ("processes = []", "processes = [extra]", "processes is used for more"),
        ("    processes", "    torch.manual_seed(1)\n    processes", "seeded in line 16"),
        ("    processes", "    args = parse()\n    processes", "args (line 12) is bound by the starting"),
    ],
)  # fmt: skip
def test_a_loop_that_is_not_known_to_be_a_launch_is_told(old: str, new: str, reason: str) -> None:
    code = script(LOOP.replace(old, new, 1), "print(args)")
    assert code != script(LOOP, "print(args)")
    assert reason in why(code)


def test_processes_that_begin_anew_inherit_nothing() -> None:
    loop = "    torch.manual_seed(1)\n    args = parse()\n    mp.set_start_method('spawn')\n" + LOOP
    assert LAUNCH in migrate(script(loop, "print(args)"), "launch").code


def test_forked_processes_of_a_script_without_a_guard_are_told() -> None:
    code = script().replace('if __name__ == "__main__":\n', "if True:\n")
    assert "no main guard" in why(code)


def test_a_function_that_cannot_be_pickled_is_told() -> None:
    nested = "def start():\n    def worker(rank, n):\n        dist.init_process_group('nccl')\n\n"
    code = IMPORTS + nested + LOOP
    told = "worker (line 8), run by the processes, stands in a function: it cannot be pickled"
    assert why(code) == told


def test_what_is_handed_to_the_function_is_known_where_it_is_called() -> None:
    code = script("    mp.spawn(start, args=(2, worker), nprocs=2)\n", "torch.zeros(1).to(rank)")
    code = code.replace("\n\nif __name__", "\n\ndef start(rank, n, fn):\n    fn(rank, n)\n\n\nif __name__")
    assert "torch.zeros(1).to(device)" in migrate(code).code
