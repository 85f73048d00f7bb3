"""What counts processes for a launch: arithmetic over hosts, workers that are spawned or called."""

from __future__ import annotations

import pytest
from helpers import check_noop, context_of, expression, findings, migrate, run_only
from replicated import IMPORTS

from xla_transforms.engine import migrate_program
from xla_transforms.replicas import LOCAL_RANK, RANK

PASSES = ("process_groups", "ranks", "launch", "availability")


def script(*lines: str, main: tuple[str, ...] = (), called: bool = True) -> str:
    """A worker that is spawned, or called by itself, in the manner of training references."""
    body = "".join(f"    {line}\n" for line in lines)
    before = "".join(f"    {line}\n" for line in main)
    return (
        f"{IMPORTS}import argparse\n\n\ndef worker(gpu, n, args):\n    args.rank = args.rank * n + gpu\n"
        "    dist.init_process_group('nccl', rank=args.rank, world_size=args.world_size)\n"
        f"{body}    device = torch.device('cuda')\n\n\ndef main():\n"
        "    parser = argparse.ArgumentParser()\n    parser.add_argument('--rank', type=int, default=0)\n"
        "    parser.add_argument('--world-size', type=int, default=1)\n    args = parser.parse_args()\n"
        f"    n = torch.cuda.device_count()\n{before}    if args.spawn:\n"
        "        args.world_size = n * args.world_size\n"
        "        mp.spawn(worker, nprocs=n, args=(n, args))\n"
        + ("    else:\n        worker(args.gpu, n, args)\n" if called else "")
        + '\n\nif __name__ == "__main__":\n    main()\n'
    )


def test_arithmetic_of_ones_own_stays() -> None:
    text = run_only(script("total = n * args.steps"), *PASSES)
    assert "    total = n * args.steps\n" in text


def test_what_is_given_to_the_group_is_the_rank() -> None:
    context = context_of(script("print(args.rank)"))
    assert context.replicas.number(expression(context, "args.rank", -1)) == RANK
    assert context.replicas.number(expression(context, "args.rank * n + gpu")) == RANK


def test_the_rank_among_the_devices_of_a_host_is_the_local_one() -> None:
    context = context_of(script("print(args.rank % n)"))
    assert context.replicas.number(expression(context, "args.rank % n")) == LOCAL_RANK


def test_the_launch_and_the_call_lose_the_count() -> None:
    text = run_only(script("size = 64 // n"), *PASSES)
    assert "def worker(gpu, args):\n    n = xr.local_device_count()\n" in text
    assert "    args.rank = xr.global_ordinal()\n" in text
    assert "        torch_xla.launch(worker, args=(args,))\n" in text
    assert "        worker(args.gpu, args)\n" in text
    assert "device_count() *" not in text
    assert "args.world_size" not in text


def test_a_world_size_that_processes_read_is_asked_there() -> None:
    text = run_only(script("print(args.world_size)"), *PASSES)
    assert "    print(xr.world_size())\n" in text


def test_a_call_whose_arguments_are_not_seen_keeps_the_count() -> None:
    text = run_only(script().replace("worker(args.gpu, n, args)", "worker(*everything())"), *PASSES)
    assert "def worker(gpu, n, args):" in text


def test_a_condition_on_one_device_was_never_true() -> None:
    text = run_only(script(main=("if n == 1 and args.fast:", "    print('one')")), *PASSES)
    assert "print('one')" not in text
    assert "device_count" not in text.partition("def main")[2]


def test_a_count_that_is_needed_before_the_launch_is_told_and_left() -> None:
    code = script(main=("print(n)",))
    assert "    n = torch.cuda.device_count()\n" in run_only(code, *PASSES, "cuda_utilities")
    assert "XLA145" in [found for found, _ in findings(code, *PASSES)]


def chosen(otherwise: str) -> str:
    """A script in which the user may choose the CPU, and which counts processes by that."""
    choice = (
        "    device = torch.device('cpu' if args.cpu else 'cuda')\n    if device.type == 'cuda':\n"
        "        n = torch.accelerator.device_count()\n"
        "        if n == 1 and args.fast:\n            print('one')\n"
        f"    else:\n        n = {otherwise}\n"
    )
    return script("size = 64 // n").replace("    n = torch.cuda.device_count()\n", choice)


@pytest.mark.parametrize("otherwise", ["2", "args.gpus", "count()"])
def test_another_number_of_processes_than_one_for_the_cpu_is_the_users(otherwise: str) -> None:
    code = chosen(otherwise)
    assert f"    else:\n        n = {otherwise}\n" in run_only(code, *PASSES, "device_guards")
    assert "XLA145" in [found for found, _ in findings(code, *PASSES)]


def test_a_count_that_is_one_where_the_cpu_is_chosen_goes_with_the_choice() -> None:
    text = run_only(chosen("1"), *PASSES, "device_guards")
    assert "def worker(gpu, args):\n    n = xr.local_device_count()\n" in text
    assert "        torch_xla.launch(worker, args=(args,))\n" in text
    assert "        worker(args.gpu, args)\n" in text
    assert "device.type" not in text
    assert findings(chosen("1"), *PASSES) == []


def test_what_the_user_tells_of_hosts_is_read_as_before() -> None:
    code = script(main=("hosts = int(os.environ['WORLD_SIZE'])",))
    assert "    hosts = int(os.environ['WORLD_SIZE'])\n" in run_only(code, *PASSES)
    assert [found for found, _ in findings(code, *PASSES)] == []


def test_a_program_of_one_process_counts_as_before() -> None:
    code = "import torch\nn = torch.cuda.device_count() * 2\nx = torch.ones(n).cuda()\n"
    check_noop(code, "ranks", "launch")


def demos(*main: str, functions: tuple[str, ...] = ("one", "two")) -> str:
    """Functions that are handed to one which starts processes of them."""
    bodies = "".join(
        f"\n\ndef {name}(rank, n):\n    dist.init_process_group('nccl', rank=rank, world_size=n)\n"
        f"    train(torch.device('cuda', rank))\n"
        for name in functions
    )
    runs = "".join(f"    {line}\n" for line in main)
    return (
        f"{IMPORTS}{bodies}\n\ndef run(function, n):\n    mp.spawn(function, args=(n,), nprocs=n)\n\n\n"
        f'if __name__ == "__main__":\n    gpus = torch.cuda.device_count()\n{runs}'
    )


def test_a_count_that_is_shown_stays_with_those_who_show_it() -> None:
    text = run_only(demos("print(gpus)", "run(one, gpus)"), *PASSES)
    assert "    print(gpus)\n    run(one)\n" in text


def test_a_function_that_is_not_the_programs_is_not_started() -> None:
    outcome = migrate(demos("run(one, gpus)", "run(other.two, gpus)"))
    assert "mp.spawn(function, args=(n,), nprocs=n)" in outcome.code
    (left,) = [finding for finding in outcome.findings if finding.code == "XLA163"]
    assert "it is not known what function the processes run" in left.message


def test_a_parameter_that_brings_the_count_goes_with_what_was_given() -> None:
    code = demos("assert gpus > 1, gpus", "size = gpus", "run(one, size)", "run(two, n=size)")
    text = run_only(code, *PASSES)
    assert "def run(function):\n    torch_xla.launch(function)\n" in text
    assert text.endswith('__main__":\n    run(one)\n    run(two)\n')
    assert "def one(rank):\n" in text
    assert "def two(rank):\n" in text


def test_a_parameter_that_the_starting_function_reads_stays() -> None:
    code = demos("run(one, gpus)").replace("    mp.spawn(", "    print(n)\n    mp.spawn(")
    text = run_only(code, *PASSES)
    assert "def run(function, n):\n    print(n)\n    torch_xla.launch(function)\n" in text
    assert "run(one, gpus)\n" in text


@pytest.mark.parametrize("use", ["later.submit(run, two, 2)", "table = {'run': run}"])
def test_a_starting_function_that_something_else_may_call_keeps_its_parameters(use: str) -> None:
    text = run_only(demos(use, "run(one, gpus)"), *PASSES)
    assert "def run(function, n):\n    torch_xla.launch(function)\n" in text
    assert "    run(one, gpus)\n" in text


def test_a_worker_that_something_else_may_call_keeps_its_parameters() -> None:
    text = run_only(demos("later.submit(one, 0, 2)", "run(one, gpus)"), *PASSES)
    assert "def one(rank, n):\n" in text
    assert "def run(function, n):\n    torch_xla.launch(function, args=(n,))\n" in text


def test_a_start_gives_all_its_workers_the_same() -> None:
    text = run_only(demos("later.submit(two, 0, 2)", "run(one, gpus)", "run(two, gpus)"), *PASSES)
    assert "def one(rank, n):\n" in text
    assert "def two(rank, n):\n" in text
    assert "torch_xla.launch(function, args=(n,))\n" in text


def test_a_count_of_another_module_goes_with_its_variable() -> None:
    util = "import torch.multiprocessing as mp\n\n\ndef run(function, n):\n    mp.spawn(function, (n,), n)\n"
    start = demos("run(one, gpus)", functions=("one",))
    main = "from util import run\n" + start.partition("def run(")[0] + start[start.index("if __name__") :]
    found = migrate_program({"util.py": util.encode(), "main.py": main.encode()})
    assert found["util.py"].code.endswith("def run(function):\n    torch_xla.launch(function)\n")
    assert found["main.py"].code.endswith('if __name__ == "__main__":\n    run(one)\n')
    assert "def one(rank):\n" in found["main.py"].code


ADDED = """\
def worker(gpu, args):
    args.rank += gpu
    dist.init_process_group("nccl", rank=args.rank, world_size=args.world_size)
    device = torch.device("cuda")
    print(args.rank, 64 // args.world_size)
    if args.rank == 0:
        torch.save(state, "x.pt")


def main(args):
    args.gpus = torch.cuda.device_count()
{}    mp.spawn(worker, (args,), args.gpus)


if __name__ == "__main__":
    main(argparse.ArgumentParser().parse_args())
"""
ONE_HOST = "    args.rank = 0\n    args.world_size = args.gpus\n"
SEVERAL = """\
    if "SLURM_NNODES" in os.environ:
        args.rank = int(os.environ["SLURM_NODEID"]) * args.gpus
        args.world_size = int(os.environ["SLURM_NNODES"]) * args.gpus
        print("several hosts")
    else:
        args.rank = 0
        args.world_size = args.gpus
        print("one host")
"""


@pytest.mark.parametrize("main", [ONE_HOST, SEVERAL])
def test_a_rank_to_which_each_process_adds_its_number_is_asked_of_the_runtime(main: str) -> None:
    outcome = migrate(f"{IMPORTS}import argparse\n\n\n{ADDED.format(main)}")
    text = outcome.data.decode()
    assert "    args.rank = xr.global_ordinal()\n" in text
    assert "    print(args.rank, 64 // xr.world_size())\n" in text
    assert '    xm.save(state, "x.pt")\n' in text
    assert "args.gpus" not in text
    assert "args.world_size" not in text
    assert text.count("args.rank") == 2
    assert not {f.code for f in outcome.findings} & {"XLA145", "XLA160", "XLA812"}


def test_the_number_of_a_process_is_its_local_one_where_a_product_is_added_to() -> None:
    head = f"{IMPORTS}import argparse\n\n\n"
    context = context_of(head + ADDED.format(SEVERAL))
    assert context.replicas.number(expression(context, "gpu", -1)) == LOCAL_RANK
    context = context_of(head + ADDED.format(ONE_HOST))
    assert context.replicas.number(expression(context, "gpu", -1)) == RANK


def test_what_the_starting_process_reads_itself_stays() -> None:
    main = ONE_HOST + "    print(args.rank, args.gpus)\n"
    text = migrate(f"{IMPORTS}import argparse\n\n\n{ADDED.format(main)}").data.decode()
    assert "    args.rank = 0\n" in text
    assert "    args.gpus = torch.cuda.device_count()\n" in text


def test_a_world_size_that_is_multiplied_above_the_launch_is_counted_by_the_runtime() -> None:
    code = script("print(args.world_size)")
    text = run_only(code.replace("= n * args.world_size", "*= n"), *PASSES)
    assert "args.world_size" not in text
    assert "    print(xr.world_size())\n" in text
