"""Saves that other things than the block of a guard keep the other replicas from."""

from __future__ import annotations

import pytest
from helpers import migrate, run_only
from replicated import launched

from xla_transforms.settings import Settings

SAVE = "torch.save(model.state_dict(), path)"
NAMES = "from ours import epoch, files\nmodel = torch.nn.Linear(2, 2)\npath = str(files)\n"
KEEP = "\n\ndef keep(model, path, rank):\n"


@pytest.mark.parametrize("leave", ["if rank != 0:\n        return None", "if rank > 0:\n        return"])
def test_an_early_exit_that_gives_nothing_opens(leave: str) -> None:
    code = launched("keep(model, path, dist.get_rank())", before=f"{NAMES}{KEEP}    {leave}\n    {SAVE}\n")
    assert f"def keep(model, path, rank):\n    {SAVE}\n" in run_only(code, "master_guards")


def left(before: str, call: str = "keep(model, path, dist.get_rank())", target: str = "2.9") -> list[str]:
    settings = Settings(target=target)
    outcome = migrate(launched(call, before=NAMES + before), settings=settings)
    return [f"{f.code} {f.message}" for f in outcome.findings if f.code in ("XLA812", "XLA814")]


@pytest.mark.parametrize("leave", ["return -1", "raise FileExistsError"])
def test_where_the_master_breaks_off_nobody_saves(leave: str) -> None:
    assert left(f"{KEEP}    if rank == 0 and os.path.exists('a.pt'):\n        {leave}\n    {SAVE}\n") == []


@pytest.mark.parametrize(
    "leave",
    [
        "if rank != 0:\n        return False",
        "if rank != 0:\n        print(rank)\n        return",
        "if rank == 0:\n        print(rank)\n    else:\n        return",
        "if rank != 0:\n        raise RuntimeError",
    ],
)
def test_another_early_exit_above_a_save_is_told(leave: str) -> None:
    (found,) = left(f"{KEEP}    {leave}\n    {SAVE}\n")
    assert found.startswith("XLA812 the other replicas do not reach the save below")


def test_an_early_exit_with_what_it_gives_behind_the_save_is_told() -> None:
    (found,) = left(f"{KEEP}    if rank != 0:\n        return None\n    {SAVE}\n    return path\n")
    assert "the master leaves here, the other replicas go on" in found


def test_an_early_exit_of_all_replicas_above_a_save_is_none() -> None:
    assert left(f"{KEEP}    if path is None:\n        return False\n    {SAVE}\n") == []


WRAPPED = """

def {name}(function):
    def inner(*given):
        {lines}
    return inner


@{name}
def keep(model, path):
    {save}
"""


def decorated(*lines: str) -> str:
    return WRAPPED.format(name="wrapped", lines="\n        ".join(lines), save=SAVE)


@pytest.mark.parametrize(
    "lines",
    [
        ("if dist.get_rank() == 0:", "    return function(*given)"),
        ("if dist.get_rank() != 0:", "    return None", "return function(*given)"),
    ],
)
def test_a_decorator_that_lets_the_master_alone_save_is_told(lines: tuple[str, ...]) -> None:
    (found,) = left(decorated(*lines), "keep(model, path)")
    assert found.startswith("XLA812 the other replicas do not reach the save in it: it lets some alone run")
    waiting = left(decorated(*lines), "keep(model, path)", "sagemaker")
    assert [found.split()[0] for found in waiting] == ["XLA812", "XLA814"]


def test_a_decorator_that_runs_the_function_on_all_is_none() -> None:
    lines = ("if dist.get_rank() == 0:", "    print(given)", "return function(*given)")
    assert left(decorated(*lines), "keep(model, path)") == []


CHOSEN = """

class Keeper:
    def __init__(self, rank, enabled=True):
        {kept}

    def keep(self, model, path):
        if not self.enabled:
            return
        {save}
"""


@pytest.mark.parametrize(
    ("kept", "given"),
    [
        ("self.enabled = enabled", "0, dist.get_rank() == 0"),
        ("self.enabled, self.rank = rank == 0, rank", "dist.get_rank()"),
    ],
)
def test_who_saves_may_be_said_where_the_saver_is_made(kept: str, given: str) -> None:
    made = f"Keeper({given}).keep(model, path)"
    code = launched(made, made, before=NAMES + CHOSEN.format(kept=kept, save=SAVE))
    assert f"    def keep(self, model, path):\n        {SAVE}\n" in run_only(code, "master_guards")


def test_a_saver_that_is_enabled_otherwise_elsewhere_stays() -> None:
    lines = ("Keeper(0, dist.get_rank() == 0).keep(model, path)", "Keeper(0, epoch > 3).keep(model, path)")
    code = launched(*lines, before=NAMES + CHOSEN.format(kept="self.enabled = enabled", save=SAVE))
    assert "        if not self.enabled:\n" in run_only(code, "master_guards")


BEHIND = """

class Keeper:
    def __init__(self, path):
        self.path = path

    def keep(self, model):
        torch.save(model.state_dict(), self.path)


class Silent:
    def keep(self, model):
        pass
"""
OBJECTS = (
    ("keepers = [Silent()]", "if dist.get_rank() == 0:", "    keepers.append(Keeper('a.pt'))"),
    ("keepers = [Keeper('a.pt')] if dist.get_rank() == 0 else [Silent()]",),
)
OTHERS = (
    ("match dist.get_rank():", "    case 0:", f"        {SAVE}", "    case _:", "        pass"),
    ("save = lambda: torch.save(model.state_dict(), path)", "if dist.get_rank() == 0:", "    save()"),
)


def behind(lines: tuple[str, ...], target: str = "2.9") -> list[str]:
    loop = ("for keeper in keepers:", "    keeper.keep(model)") if "Keeper" in str(lines) else ()
    first = ("path = 'a.pt'", "model = DDP(torch.nn.Linear(2, 2).cuda())")
    code = launched(*first, *lines, *loop, before=BEHIND)
    found = migrate(code, settings=Settings(target=target)).findings
    return [f"{f.code} {f.severity.label}" for f in found if f.code in ("XLA812", "XLA814")]


@pytest.mark.parametrize(
    "made", ["keepers = [Keeper('a.pt')]", "keepers = [Keeper('a.pt') if path else Silent()]"]
)
def test_a_saver_that_all_replicas_make_is_none(made: str) -> None:
    assert behind((made,)) == behind((made,), "sagemaker") == []


def test_an_arm_of_something_else_is_none() -> None:
    assert behind(("match path:", "    case 'a.pt':", f"        {SAVE}")) == []


@pytest.mark.parametrize("lines", [*OBJECTS, *OTHERS])
def test_a_save_that_some_alone_come_to_in_another_way_is_told(lines: tuple[str, ...]) -> None:
    assert behind(lines) == ["XLA812 info"]
    assert sorted(behind(lines, "sagemaker")) == ["XLA812 error", "XLA814 error"]
