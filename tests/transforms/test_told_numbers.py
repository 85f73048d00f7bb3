"""Ranks and counts of processes that the user tells a script."""

from __future__ import annotations

import pytest
from helpers import findings
from replicated import IMPORTS, launched

OPTIONS = (
    "import argparse\nparser = argparse.ArgumentParser()\n"
    'parser.add_argument("--gpus", type=int)\nparser.add_argument("--batch", type=int)\n'
    "args = parser.parse_args()\n"
)


def joined(given: str, *lines: str) -> list[str]:
    """What is told of a group that is joined so."""
    code = launched(*lines, before="import ours\n")
    code = code.replace('group("nccl")', f'group("nccl", {given})')
    return [code for code, _ in findings(code, "told_numbers")]


def started(*lines: str, count: str = "args.gpus", before: str = OPTIONS) -> list[str]:
    """What is told of a script that starts its processes, behind these lines."""
    body = "".join(f"    {line}\n" for line in lines)
    code = (
        f"{IMPORTS}{before}\n\ndef worker(rank, args):\n"
        f'    dist.init_process_group("nccl", rank=rank, world_size={count})\n    torch.zeros(1).cuda()\n'
        f'\n\nif __name__ == "__main__":\n{body}    mp.spawn(worker, args=(args,), nprocs={count})\n'
    )
    return [code for code, _ in findings(code, "told_numbers", "launch")]


@pytest.mark.parametrize(
    "given",
    [
        "init_method='env://'",
        "rank=int(os.environ['SLURM_PROCID']), world_size=int(os.environ['SLURM_NTASKS'])",
        "rank=0, world_size=1",
        "rank=None",
    ],
)
def test_what_a_launcher_gives_or_the_script_says_is_no_matter(given: str) -> None:
    assert joined(given) == []


@pytest.mark.parametrize("given", ["rank=ours.all['rank']", "world_size=ours.size", "rank=ours.args.rank"])
def test_what_is_not_known_to_come_from_a_launcher_is_told(given: str) -> None:
    assert joined(given) == ["XLA160"]


def test_what_a_world_size_multiplies_is_none() -> None:
    code = launched("rate = 2", "rate *= int(os.environ['WORLD_SIZE'])", "dist.init_process_group('nccl')")
    code = code.replace("group('nccl')", "group('nccl', world_size=int(rate))")
    assert [code for code, _ in findings(code, "told_numbers")] == ["XLA160"]


@pytest.mark.parametrize("line", ["if args.gpus > 1: print(1)", "print(args.gpus)", "args.batch *= 3"])
def test_a_count_that_nothing_is_computed_from_is_no_matter(line: str) -> None:
    assert started(line) == []


def test_a_count_of_devices_is_no_matter() -> None:
    assert started("n = torch.cuda.device_count()", "args.batch = args.batch // n", count="n") == []


def test_what_only_counts_the_processes_is_no_matter() -> None:
    script = (
        f"{IMPORTS}{OPTIONS}\n\ndef worker(rank, args):\n    torch.zeros(1).cuda()\n"
        '    dist.init_process_group("nccl", rank=rank, world_size=args.world)\n'
        '\n\nif __name__ == "__main__":\n    args.world = args.gpus * 1\n'
        "    mp.spawn(worker, args=(args,), nprocs=args.gpus)\n"
    )
    assert [code for code, _ in findings(script, "told_numbers", "launch")] == []


@pytest.mark.parametrize(
    "line", ["args.batch = args.batch // args.gpus", "args.batch = int(args.batch / args.gpus)"]
)
def test_what_is_computed_from_an_option_that_counted_processes_is_told(line: str) -> None:
    assert started(line) == ["XLA169"]


def test_what_is_computed_from_a_number_that_counted_processes_is_told() -> None:
    before = OPTIONS + "GPUS = 4\n"
    assert started("args.batch = args.batch // GPUS", count="GPUS", before=before) == ["XLA169"]
