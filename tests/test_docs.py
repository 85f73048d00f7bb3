"""Pages that repeat what the code says are current, and the code that they show works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import (
    EXAMPLES,
    README,
    RULE_PAGES,
    RULES,
    SCHEMA,
    TARGETS_PAGE,
    example_file,
    readme,
    rule_page,
    rules_page,
    schema_page,
    targets_page,
)

from xla_migrate.known_rules import known_rules
from xla_migrate.reports import FORMATS
from xla_migrate.rule_examples import WITHOUT, example, shown
from xla_transforms.findings import Rule

ROOT = Path(__file__).parents[1]


def test_the_page_of_the_rules_is_current() -> None:
    assert RULES.read_text() == rules_page(), "scripts/generate_docs writes it anew"


@pytest.mark.slow
@pytest.mark.parametrize("rule", known_rules(), ids=lambda rule: rule.code)
def test_the_page_of_a_rule_and_its_example_are_current(rule: Rule) -> None:
    page = (RULE_PAGES / f"{rule.code}.md").read_text()
    assert page == rule_page(rule), "scripts/generate_docs writes it anew"
    path = EXAMPLES / f"{rule.code}.txt"
    assert (path.read_text() if path.exists() else None) == example_file(rule)


def test_pages_and_examples_are_those_of_rules() -> None:
    codes = {rule.code for rule in known_rules()}
    assert {path.stem for path in RULE_PAGES.glob("*.md")} <= codes
    assert {path.stem for path in EXAMPLES.glob("*.txt")} <= codes


def test_every_rule_has_an_example_or_a_reason_for_none() -> None:
    rules = {rule.code for rule in known_rules()}
    without = {code for code in rules if not (EXAMPLES / f"{code}.txt").exists()}
    assert without == set(WITHOUT), "write migrate/xla_migrate/examples/CODE.txt"


@pytest.mark.parametrize("code", ["XLA012", "XLA104", "XLA132", "XLA311", "XLA501", "XLA811", "XLA941"])
def test_an_example_shows_its_rule_for_the_targets_that_it_names(code: str) -> None:
    rule = next(rule for rule in known_rules() if rule.code == code)
    given = example(code)
    assert given is not None
    assert given.targets
    assert {target for one in shown(rule, given) for target in one.targets} == set(given.targets)


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
