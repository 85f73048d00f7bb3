"""Pages that repeat what the code says are current, and the code that they show works."""

from __future__ import annotations

import re
from pathlib import Path

from pages import README, RULES, SCHEMA, TARGETS_PAGE, readme, rules_page, schema_page, targets_page

from xla_migrate.reports import FORMATS

ROOT = Path(__file__).parents[1]


def test_the_page_of_the_rules_is_current() -> None:
    assert RULES.read_text() == rules_page(), "scripts/generate_docs writes it anew"


def test_the_page_of_the_targets_is_current() -> None:
    assert TARGETS_PAGE.read_text() == targets_page(), "scripts/generate_docs writes it anew"


def test_the_schema_of_reports_is_the_package_s() -> None:
    assert SCHEMA.read_text() == schema_page(), "scripts/generate_docs writes it anew"


def test_the_page_of_the_reports_names_every_format() -> None:
    text = (ROOT / "docs" / "reports.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(FORMATS)


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


def test_the_guide_shows_a_pass_and_its_tests_as_they_are() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    code, tests = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert code == (ROOT / "transforms/xla_transforms/passes/distributions.py").read_text()
    assert tests == (ROOT / "tests/transforms/test_distributions.py").read_text()
