"""Conditions on the process group and on a launcher's environment."""

from __future__ import annotations

import pytest
from helpers import check_noop, run_only
from replicated import launched


def test_a_program_of_one_process_is_asked_as_before() -> None:
    code = "import os, torch\nimport torch.distributed as dist\nx = torch.ones(1).cuda()\n"
    check_noop(code + 'if dist.is_initialized() and "RANK" in os.environ:\n    print(x)\n', "availability")


def test_another_variable_is_asked_for_as_before() -> None:
    check_noop(launched('if "DEBUG" in os.environ:', "    print(1)"), "availability")


RANK, SLURM = '"RANK" in os.environ', '"SLURM_PROCID" in os.environ'
TRUE = ("dist.is_initialized()", "dist.is_available()", RANK, SLURM)


@pytest.mark.parametrize("test", TRUE)
def test_there_are_several_processes(test: str) -> None:
    text = run_only(launched(f"if {test}:", "    print(1)", "else:", "    print(2)"), "availability")
    assert "    print(1)\n" in text
    assert "print(2)" not in text


def test_the_first_launcher_that_is_asked_for_has_started_them() -> None:
    first, second = (f"if {RANK}:", "    a = 1"), (f"elif {SLURM}:", "    a = 2")
    text = run_only(launched(*first, *second, "else:", "    a = 3"), "availability")
    assert "    a = 1\n" in text
    assert "a = 2" not in text
    assert "a = 3" not in text


def test_the_users_own_part_of_a_condition_stays() -> None:
    text = run_only(launched("if args.wait and dist.is_initialized():", "    print(1)"), "availability")
    assert "    if args.wait:\n" in text


def test_a_helper_that_asks_says_yes() -> None:
    before = "def grouped():\n    if not dist.is_initialized():\n        return False\n    return True\n"
    text = run_only(launched("print(grouped())", before=before), "availability")
    assert "def grouped():\n    return True\n" in text


JOIN = 'dist.init_process_group("nccl")'


def set_up(*lines: str, more: str = "") -> str:
    """What is left of a function that sets the group up, behind its first line."""
    before = more + "def set_up(args):\n" + "".join(f"    {line}\n" for line in lines)
    code = launched("set_up(args)", before=before).replace(f"    {JOIN}\n    set_up", "    set_up", 1)
    text = run_only(code, "availability", "process_groups")
    return text.split("def set_up(args):\n")[1].split("\n\ndef main")[0]


def test_before_a_process_joins_there_is_no_group_yet() -> None:
    left = set_up("if dist.is_initialized():", "    return", JOIN, "args.joined = True")
    assert left == "    args.joined = True\n"


def test_what_is_done_for_want_of_a_group_is_done() -> None:
    left = set_up("if not dist.is_initialized():", f"    {JOIN}", "    args.joined = True")
    assert left == "    args.joined = True\n"


def test_a_function_that_joins_may_be_another_one() -> None:
    more = f"def join(args):\n    {JOIN}\n    args.joined = True\n\n\n"
    left = set_up("if dist.is_initialized():", "    return", "join(args)", "args.ready = True", more=more)
    assert left == "    join(args)\n    args.ready = True\n"


def test_once_it_has_joined_there_is_one() -> None:
    ways = ("if dist.is_initialized():", "    args.joined = True", "else:", "    args.alone = True")
    left = set_up(JOIN, *ways)
    assert left == "    args.joined = True\n"


def test_another_function_asks_when_there_is_one() -> None:
    left = set_up(JOIN, "args.joined = True", more="def ask():\n    return dist.is_initialized()\n\n\n")
    assert left == "    args.joined = True\n"
