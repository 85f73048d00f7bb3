"""Objects that only a process which is being started can be handed."""

from __future__ import annotations

import pytest
from helpers import findings, migrate
from replicated import spawned

from xla_transforms.settings import Settings


def handing(made: str, before: str = "") -> str:
    code = spawned("print(shared)", before="import multiprocessing\n")
    code = code.replace("world_size):", "world_size, shared):")
    code = code.replace("    n = ", f"    {before}shared = {made}\n    n = ")
    return code.replace("args=(n,)", "args=(n, shared)")


@pytest.mark.parametrize("made", ["3", "mp.Manager().Queue()", "ours.Queue()", "threading.Lock()"])
def test_what_can_be_pickled_is_no_matter(made: str) -> None:
    assert findings(handing(made), "handed_objects") == []


def test_a_context_of_something_else_is_no_matter() -> None:
    code = handing("context.Queue()", before="context = ours.get_context()\n    ")
    assert findings(code, "handed_objects") == []


def test_where_a_launcher_starts_the_processes_each_makes_its_own() -> None:
    found = findings(handing("mp.Event()"), "handed_objects", settings=Settings(target="sagemaker"))
    assert found == []


@pytest.mark.parametrize("made", ["mp.Event()", "multiprocessing.Queue()", 'mp.get_context("spawn").Lock()'])
def test_what_only_a_start_can_hand_on_is_told(made: str) -> None:
    (found,) = migrate(handing(made), "handed_objects").findings
    name = made.rpartition(".")[2].removesuffix("()")
    assert (found.code, found.severity.label) == ("XLA167", "error")
    assert found.message == (
        f"torch_xla.launch cannot hand shared to its processes: an object of multiprocessing.{name}"
    )


def test_an_object_of_a_context_in_a_variable_is_told() -> None:
    code = handing("context.Barrier(2)", before='context = mp.get_context("spawn")\n    ')
    assert [code for code, _ in findings(code, "handed_objects")] == ["XLA167"]
