"""What the analysis finds out about the processes of a program."""

from __future__ import annotations

import pytest
from helpers import context_of, expression
from replicated import IMPORTS, launched, spawned

from xla_transforms.replicas import LOCAL_RANK, LOCAL_WORLD_SIZE, RANK, WORLD_SIZE, Style
from xla_transforms.settings import Settings


def number(code: str, text: str, which: int = -1) -> str:
    context = context_of(code)
    return context.replicas.number(expression(context, text, which))


def test_a_script_of_one_process_is_single() -> None:
    context = context_of("import torch\nmodel = torch.nn.Linear(1, 1).cuda()\n")
    assert context.replicas.style is Style.SINGLE
    assert not context.distributed


def test_processes_that_share_a_model_do_not_train_together() -> None:
    code = IMPORTS + "x = torch.ones(1).cuda()\nmp.spawn(f, nprocs=2)\n"
    assert not context_of(code.replace("from torch.nn.parallel", "from ours")).distributed


def test_the_style_is_that_of_the_start() -> None:
    assert context_of(spawned("pass")).replicas.style is Style.SPAWN
    assert context_of(launched("pass")).replicas.style is Style.LAUNCHER


def test_the_users_setting_wins() -> None:
    assert context_of(launched("pass")).distributed
    assert not context_of(launched("pass"), Settings(distributed=False)).distributed


def test_a_launchers_script_needs_no_main_guard() -> None:
    assert context_of(IMPORTS + 'dist.init_process_group("nccl")\nx = torch.ones(1).cuda()\n').distributed


def test_a_script_whose_names_are_made_by_exec_is_not_understood() -> None:
    code = IMPORTS + 'dist.init_process_group("nccl")\nexec(open("config.py").read())\n'
    context = context_of(code + "x = torch.ones(1).cuda()\n")
    assert "exec()" in context.replicas.obstacle
    assert not context.distributed


def test_processes_of_a_function_inside_a_function_are_not_understood() -> None:
    code = "def run():\n    def work(rank):\n        dist.init_process_group('nccl')\n    mp.spawn(work)\n"
    assert context_of(IMPORTS + code).replicas.obstacle


def test_processes_that_nobody_waits_for_are_not_understood() -> None:
    assert context_of(spawned("pass").replace("nprocs=n", "nprocs=n, join=False")).replicas.obstacle


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("dist.get_rank()", RANK),
        ("dist.get_world_size()", WORLD_SIZE),
        ('int(os.environ["RANK"])', RANK),
        ('int(os.environ.get("LOCAL_RANK", -1))', LOCAL_RANK),
        ('int(os.getenv("WORLD_SIZE", "1"))', WORLD_SIZE),
        ('int(os.environ["LOCAL_WORLD_SIZE"])', LOCAL_WORLD_SIZE),
        ('int(os.environ["SLURM_PROCID"])', RANK),
        ('int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])', LOCAL_RANK),
        ("dist.get_rank(group)", ""),
        ("dist.get_rank() + 1", ""),
        ('int(os.environ["PORT"])', ""),
        ("random.randrange(4)", ""),
    ],
)
def test_a_number_is_known_by_its_source(source: str, expected: str) -> None:
    assert number(launched(f"value = {source}", "print(value)"), "value") == expected


def test_a_number_goes_through_attributes_and_parameters() -> None:
    before = "from argparse import ArgumentParser\ndef show(r):\n    print(r)\n"
    lines = ("args = ArgumentParser().parse_args()", "args.rank = dist.get_rank()", "show(args.rank)")
    assert number(launched(*lines, before=before), "r") == RANK


def test_what_it_is_without_processes_does_not_count() -> None:
    code = launched("if flag:", "    rank = dist.get_rank()", "else:", "    rank = 0", "print(rank)")
    assert number(code, "rank") == RANK


def test_spawns_number_is_the_rank_on_one_machine() -> None:
    assert number(spawned("print(rank)"), "rank") == RANK
    assert number(spawned("print(world_size)"), "world_size") == WORLD_SIZE


def test_spawns_number_is_a_part_of_the_rank_on_several() -> None:
    assert number(spawned("print(rank)", "total = node * world_size + rank"), "rank", -1) == LOCAL_RANK


@pytest.mark.parametrize(
    ("test", "only", "rest"),
    [
        ("rank == 0", True, []),
        ("not rank", True, []),
        ("rank != 0", False, []),
        ("rank > 0", False, []),
        ("rank in (-1, 0)", True, []),
        ("rank < 1", True, []),
        ("rank == 0 and step % 5 == 0", True, ["step % 5 == 0"]),
        ("is_main()", True, []),
        ("not is_main()", False, []),
        ("first", True, []),
        ("rank == 1", None, []),
        ("rank == -1", None, []),
        ("rank == 0 or flag", None, []),
        ("flag or rank == 0", None, []),
        ("not flag or rank == 0", True, []),
        ("not flag or (flag and rank == 0)", True, []),
        ("not flag or (other and rank == 0)", None, []),
        ("step == 0", None, []),
    ],
)
def test_conditions_that_ask_for_the_master(test: str, only: bool | None, rest: list[str]) -> None:
    before = "def is_main():\n    return dist.get_rank() == 0\n"
    context = context_of(spawned("first = rank == 0", f"if {test}:", "    print(1)", before=before))
    found = context.replicas.master(expression(context, test, -1))
    assert (found.only if found else None) == only
    assert [context.index.source.code(part) for part in (found.rest if found else ())] == rest


def test_a_local_master_is_told_from_the_master() -> None:
    context = context_of(launched('local = int(os.environ["LOCAL_RANK"])', "if local == 0:", "    print(1)"))
    found = context.replicas.master(expression(context, "local == 0"))
    assert found is not None
    assert found.local


def test_a_set_up_function_only_joins() -> None:
    setup = "def setup():\n    os.environ['MASTER_PORT'] = '1'\n    dist.init_process_group('nccl')\n"
    found = context_of(launched("setup()", before=setup)).replicas.groups.setups
    assert {function.name.value for function in found} == {"setup"}


def test_a_set_up_function_with_more_to_do_is_none() -> None:
    setup = "def setup():\n    dist.init_process_group('nccl')\n    torch.manual_seed(0)\n"
    assert context_of(launched("setup()", before=setup)).replicas.groups.setups == set()


def test_a_set_up_function_whose_result_is_used_is_none() -> None:
    setup = "def setup():\n    dist.init_process_group('nccl')\n"
    assert context_of(launched("print(setup())", before=setup)).replicas.groups.setups == set()


def test_a_collective_that_is_not_converted_needs_the_group() -> None:
    assert context_of(launched("dist.barrier()")).replicas.groups.needed == []
    assert len(context_of(launched("dist.scatter(x, xs)")).replicas.groups.needed) == 1


def test_a_device_count_says_that_there_are_several() -> None:
    context = context_of(launched("if torch.cuda.device_count() > 1:", "    pass"))
    assert context.roles.fold(expression(context, "torch.cuda.device_count() > 1")) is True
    alone = context_of("import torch\nif torch.cuda.device_count() > 1:\n    pass\n")
    assert alone.roles.fold(expression(alone, "torch.cuda.device_count() > 1")) is False


@pytest.mark.parametrize(
    ("test", "value"),
    [
        ("!= -1", True), ("== -1", False), (">= 0", True), ("< 0", False), ("> -1", True), ("== 0", None),
        ("> 0", None),
    ],
)
def test_a_launchers_process_has_a_number(test: str, value: bool | None) -> None:
    asked = f'int(os.environ.get("RANK", -1)) {test}'
    context = context_of(launched(f"if {asked}:", "    pass"))
    assert context.roles.fold(expression(context, asked)) is value


def test_a_single_process_is_no_master_that_replicas_could_be() -> None:
    code = launched(
        'several = int(os.environ.get("RANK", -1)) != -1', "if several:", "    master = dist.get_rank() == 0",
        "else:", "    master = True", "print(master)",
    )  # fmt: skip
    context = context_of(code)
    found = context.replicas.master(expression(context, "master", -1))
    assert found is not None
    assert found.only
