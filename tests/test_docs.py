"""Pages that repeat what the code says are current, and the code that they show works."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pages import README, RULES, readme, rules_page

from xla_transforms import passes

ROOT = Path(__file__).parents[1]


def test_the_page_of_the_rules_is_current() -> None:
    assert RULES.read_text() == rules_page(), "scripts/generate_docs writes it anew"


def test_the_example_of_the_readme_is_what_comes_out() -> None:
    assert README.read_text() == readme(), "scripts/generate_docs writes it anew"


def test_the_table_of_the_floors_is_the_checked_one() -> None:
    rows = re.findall(r"^\| (\d) \| (`.*?) \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    floors = {room: int(floor) for floor, rooms in rows for room in re.findall(r"`(\w+)/?`", rooms)}
    settings = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"exhaustive = true\nlayers = \[\n(.*?)\n\]", settings, re.DOTALL)
    assert listed
    layers = [re.findall(r"\w+", line) for line in listed[1].splitlines()]
    assert set(floors) == {room for rooms in layers for room in rooms}
    heights = [floors[room] for rooms in layers for room in rooms]
    assert heights == sorted(heights, reverse=True)


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The code of CONTRIBUTING.md: a pass and its tests."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "transforms"))
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_pass_of_the_guide_passes_the_tests_of_the_guide(
    blocks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, tests = blocks
    made = ModuleType(f"{passes.__name__}.distributions")
    exec(compile(code, "CONTRIBUTING.md", "exec"), vars(made))
    monkeypatch.setitem(sys.modules, made.__name__, made)
    namespace: dict[str, object] = {}
    exec(compile(tests, "CONTRIBUTING.md", "exec"), namespace)
    found = [value for name, value in namespace.items() if name.startswith("test_")]
    assert len(found) == 4
    for test in found:
        assert callable(test)
        test()
