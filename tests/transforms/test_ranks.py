"""Ranks and world sizes."""

from __future__ import annotations

import pytest
from helpers import check_noop, findings, migrate, run_only
from replicated import launched, spawned


def test_without_replicas_they_stay() -> None:
    check_noop('import os, torch\nx = torch.ones(1).cuda()\nrank = int(os.environ["RANK"])\n', "ranks")


@pytest.mark.parametrize(
    "line",
    [
        'port = int(os.environ["PORT"])',
        "sub = dist.get_rank(group)",
        'os.environ["RANK"] = "0"',
        'os.environ["RANK"], (os.environ["WORLD_SIZE"], n) = "0", ("2", 1)',
        'del os.environ["RANK"], os.environ["WORLD_SIZE"]',
        "rank = args.rank",
    ],
)
def test_what_is_no_rank_stays(line: str) -> None:
    check_noop(launched(line), "ranks")


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        ("dist.get_rank()", "xr.global_ordinal()"),
        ("dist.get_world_size()", "xr.world_size()"),
        ('int(os.environ["RANK"])', "xr.global_ordinal()"),
        ('int(os.environ.get("LOCAL_RANK", 0))', "xr.local_ordinal()"),
        ('int(os.getenv("WORLD_SIZE", 1))', "xr.world_size()"),
        ('"of " + os.environ["RANK"]', '"of " + str(xr.global_ordinal())'),
        ("torch.cuda.device_count()", "xr.local_device_count()"),
    ],
)
def test_the_runtime_is_asked(native: str, expected: str) -> None:
    text = run_only(launched(f"value = {native}"), "ranks")
    assert f"    value = {expected}\n" in text
    assert "import torch_xla.runtime as xr\n" in text


@pytest.mark.parametrize(
    "line",
    ['text: str = os.environ["RANK"]', 'text += os.environ["RANK"]', 'text, n = os.environ["RANK"], 1'],
)
def test_the_runtime_is_asked_for_what_a_statement_is_given(line: str) -> None:
    wanted = line.replace('os.environ["RANK"]', "str(xr.global_ordinal())")
    assert wanted in run_only(launched('text = ""', line), "ranks")


def test_an_option_of_the_launcher_is_read_from_the_runtime() -> None:
    before = "import argparse\nparser = argparse.ArgumentParser()\n"
    before += 'parser.add_argument("--local_rank", type=int)\n'
    text = run_only(launched("args = parser.parse_args()", "print(args.local_rank)", before=before), "ranks")
    assert "print(xr.local_ordinal())" in text


def test_on_one_machine_the_devices_are_the_world() -> None:
    assert "b = x // xr.world_size()" in run_only(spawned("b = x // torch.cuda.device_count()"), "ranks")


def test_before_the_launch_nobody_is_asked() -> None:
    code = spawned("pass").replace("    n = ", "    print(dist.get_world_size())\n    n = ")
    assert [code for code, _ in findings(code, "ranks")] == ["XLA145"]


def test_a_variable_that_is_looked_for_under_several_names_is_one() -> None:
    asked = ["    if v in os.environ:", "        rank = int(os.environ[v])"]
    text = migrate(launched('for v in ("RANK", "PMI_RANK"):', *asked)).code
    assert '    for v in ("RANK", "PMI_RANK"):\n        rank = xr.global_ordinal()\n' in text


@pytest.mark.parametrize("names", ['("RANK", "WORLD_SIZE")', '("HOME", "PORT")', "given"])
def test_variables_of_several_meanings_or_of_none_stay(names: str) -> None:
    check_noop(launched(f"for v in {names}:", "    value = os.environ[v]"), "ranks")


DEFERRED = """
from dataclasses import dataclass, field

asked = lambda: dist.get_rank()


@dataclass
class Settings:
    size: int = field(default_factory=lambda: int(os.environ["WORLD_SIZE"]))
"""


def test_what_a_lambda_asks_is_asked_where_it_is_called() -> None:
    text = run_only(launched("print(asked(), Settings().size)", before=DEFERRED), "ranks")
    assert "asked = lambda: xr.global_ordinal()\n" in text
    assert "field(default_factory=lambda: xr.world_size())\n" in text


@pytest.mark.parametrize("called", ["asked()", "Settings()"])
def test_a_lambda_that_is_called_before_the_launch_asks_nobody(called: str) -> None:
    code = spawned("pass", before=DEFERRED).replace("    n = ", f"    print({called})\n    n = ")
    assert "XLA145" in [code for code, _ in findings(code, "ranks")]


def test_lambdas_that_call_each_other_end() -> None:
    before = "one = lambda: other() + dist.get_rank()\nother = lambda: one()\n"
    assert "dist.get_rank()" not in run_only(launched("pass", before=before), "ranks")


READERS = """
def one(name, default=0):
    return int(os.environ.get(name, default))


def text(name):
    return os.environ[name]


def first(*names, default=0):
    for name in names:
        value = os.getenv(name)
        if value is not None:
            return int(value)
    return default


def listed(names):
    for name in names:
        if name in os.environ:
            return int(os.environ[name])
    return None


def again(name):
    value = os.environ.get(name)
    while value is None:
        value = value or "0"
    return int(value)


def cast(name):
    value = os.environ.get(name)
    for _ in range(2):
        value = int(value)
    return value


def twice(name):
    return 2 * int(os.environ[name])


def known(name):
    if name == "RANK":
        return lookup(name)
    return int(os.environ[name])
"""


@pytest.mark.parametrize(
    "line",
    [
        'port = one("PORT", 3)',
        "rank = one(name)",
        'rank = twice("RANK")',
        'rank = cast("RANK")',
        'rank = known("RANK")',
        'rank = first("RANK", "WORLD_SIZE")',
    ],
)
def test_what_a_function_reads_by_a_name_that_says_no_rank_stays(line: str) -> None:
    check_noop(launched(line, before=READERS), "ranks")


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        ('one("RANK")', "xr.global_ordinal()"),
        ('one(default=1, name="WORLD_SIZE")', "xr.world_size()"),
        ('"of " + text("RANK")', '"of " + str(xr.global_ordinal())'),
        ('int(text("LOCAL_RANK"))', "xr.local_ordinal()"),
        ('first("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK")', "xr.global_ordinal()"),
        ('first("SLURM_NTASKS", "WORLD_SIZE", default=1)', "xr.world_size()"),
        ('again("RANK")', "xr.global_ordinal()"),
        ('listed(["LOCAL_RANK", "SLURM_LOCALID"])', "xr.local_ordinal()"),
    ],
)
def test_the_runtime_is_asked_in_place_of_a_function_that_reads(native: str, expected: str) -> None:
    text = run_only(launched(f"value = {native}", before=READERS), "ranks")
    assert f"    value = {expected}\n" in text


def test_a_function_that_asks_itself_is_read_once() -> None:
    before = (
        "def read(name):\n    if read('WORLD_SIZE') > 1:\n        value = os.environ[name]\n"
        "    else:\n        value = 0\n    return int(value)\n"
    )
    text = run_only(launched("value = read('RANK')", before=before), "ranks")
    assert "    value = xr.global_ordinal()\n" in text
    assert "    if xr.world_size() > 1:\n" in text
