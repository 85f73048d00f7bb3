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


TRUE = ("dist.is_initialized()", "dist.is_available()", '"RANK" in os.environ', '"SLURM_PROCID" in os.environ')


@pytest.mark.parametrize("test", TRUE)
def test_there_are_several_processes(test: str) -> None:
    text = run_only(launched(f"if {test}:", "    print(1)", "else:", "    print(2)"), "availability")
    assert "    print(1)\n" in text
    assert "print(2)" not in text


def test_the_first_launcher_that_is_asked_for_has_started_them() -> None:
    first, second = ('if "RANK" in os.environ:', "    a = 1"), ('elif "SLURM_PROCID" in os.environ:', "    a = 2")
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
