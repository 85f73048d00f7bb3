"""The report on two runs for programs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import verdicts

from xla_migrate.reports.verify_json import finite, report

DOCS = Path(__file__).parents[2] / "docs" / "verify-report.md"


def read(name: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    found: dict[str, Any] = json.loads(report(verdicts.ALL[name]()), parse_constant=refuse)
    return found


def keys(content: Any) -> set[str]:
    if isinstance(content, list):
        return set().union(*map(keys, content))
    if isinstance(content, dict):
        return set(content).union(*map(keys, content.values()))
    return set()


@pytest.mark.parametrize("name", verdicts.ALL)
def test_it_is_json_whatever_the_numbers(name: str) -> None:
    content = read(name)
    assert content["version"] == 1
    assert content["exit_code"] in (0, 1, 2)


def test_numbers_that_are_none_are_told_as_words() -> None:
    losses = [(one["native"], one["migrated"], one["difference"]) for one in read("broken")["losses"]]
    assert losses[1:5] == [
        (None, None, None), (0.5, "NaN", "NaN"), ("Infinity", "NaN", "NaN"), ("NaN", "-Infinity", "NaN"),
    ]  # fmt: skip


def test_what_json_does_not_know_becomes_text() -> None:
    assert finite({1: (2.5, {3}, None, True)}) == {"1": [2.5, "{3}", None, True]}


def test_it_holds_every_step_of_both_runs() -> None:
    content = read("diverged")
    assert len(content["losses"]) == len(content["steps"]) == 40
    assert content["losses"][0]["bound"] == 1e-4
    assert content["steps"][39]["migrated"]["backwards"] == 40
    assert len(content["performance"]["executions_by_step"]) == 40


def test_steps_that_one_run_did_not_take_are_null() -> None:
    content = read("one_sided")
    assert [step["migrated"] for step in content["steps"]] == [None] * 6
    assert content["losses"][0] | {"native": 0} == {
        "number": 1, "native": 0, "migrated": None, "difference": None, "bound": None,
    }  # fmt: skip


def test_it_names_the_first_divergence_and_the_rest() -> None:
    content = read("diverged")
    assert content["outcome"] == "diverged"
    assert content["first_divergence"]["name"] == "blocks.0.attention.query.weight"
    assert [one["kind"] for one in content["other_divergences"]] == ["loss", "final parameter"]
    worst = content["parameters"][0]
    assert worst["final_difference"] == pytest.approx(3e-2, rel=1e-3)
    assert worst["first_step_beyond_bound"] == 1


def test_the_worst_difference_is_one_that_is_no_number() -> None:
    assert read("broken")["comparison"]["worst_loss"] == "NaN"


def test_a_failure_is_held_whole() -> None:
    failure = read("failed")["runs"]["native"]["failure"]
    assert failure["kind"] == "ModuleNotFoundError"
    assert len(failure["frames"]) == 2
    assert read("failed_migrated")["first_divergence"]["migrated"] == "ended with ModuleNotFoundError"
    assert read("failed")["runs"]["counted"] is None


def test_every_key_is_documented_and_no_other() -> None:
    documented = set(re.findall(r"^\s*- `(\w+)`", DOCS.read_text(), re.MULTILINE))
    content: dict[str, Any] = {}
    for name in ("diverged", "failed", "within"):
        found = read(name)
        for run in filter(None, found["runs"].values()):
            run["machine"] = {}
        if found["performance"]:
            found["performance"]["fallbacks"] = {}
        content[name] = found
    assert documented >= keys(list(content.values()))
    evaluations = {"module", "value", "elements", "steps"}
    assert documented - keys(list(content.values())) <= evaluations
