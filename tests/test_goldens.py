"""Every golden case: its migration is the expected one, sound, and final.

``pytest tests/test_goldens.py --update-goldens`` writes the expected files and prints what changed.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from golden_cases import settings_of
from soundness import compiles, lost_comments, undefined_names

from xla_transforms.engine import Outcome, Settings, migrate_bytes
from xla_transforms.targets import DEFAULT, TARGETS

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())


def targets_of(case: str) -> list[str]:
    """The default target, and those that ``case.toml`` lists under ``targets``."""
    return [DEFAULT, *settings_of(GOLDEN / case).get("targets", [])]


def expected(target: str) -> str:
    return f"expected_{target.replace('.', '_')}.py"


PAIRS = [(case, target) for case in CASES for target in targets_of(case)]
Golden = Callable[[str, str, bytes], None]


@cache
def settings(case: str, target: str) -> Settings:
    asked = settings_of(GOLDEN / case).get("distributed", "auto")
    return Settings(target=target, distributed=asked)


@cache
def migrated(case: str, target: str) -> Outcome:
    return migrate_bytes((GOLDEN / case / "native.py").read_bytes(), settings(case, target), "native.py")


def findings_of(outcome: Outcome) -> bytes:
    """The findings as they stand in ``findings.json``."""
    found = [
        {"code": f.code, "severity": f.severity.label, "line": f.span.line, "message": f.message}
        for f in outcome.findings
    ]
    return (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode()


def difference(before: bytes, after: bytes, name: str) -> str:
    old, new = (data.decode("utf-8", "replace").splitlines(keepends=True) for data in (before, after))
    return "".join(difflib.unified_diff(old, new, f"{name} (recorded)", f"{name} (now)"))


def _before(case: str, name: str) -> bytes:
    """What a file that was never recorded is shown against: the native script for a migrated one."""
    return (GOLDEN / case / "native.py").read_bytes() if name.endswith(".py") else b""


@pytest.fixture
def golden(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Golden:
    """Compares what a case gives with its recorded file; with ``--update-goldens`` records it."""

    def compare(case: str, name: str, data: bytes) -> None:
        path = GOLDEN / case / name
        update = request.config.getoption("--update-goldens")
        recorded = path.read_bytes() if path.exists() else None
        if recorded == data:
            return
        if recorded is None and not update:
            pytest.fail(f"{case}/{name} is not recorded: scripts/update_goldens writes it", pytrace=False)
        changed = difference(_before(case, name) if recorded is None else recorded, data, f"{case}/{name}")
        if not update:
            pytest.fail(f"{case} gives something else:\n{changed}", pytrace=False)
        path.write_bytes(data)
        with capsys.disabled():
            print("\n" + changed, end="")

    return compare


def test_there_are_forty_cases_and_each_is_complete() -> None:
    assert len(CASES) >= 40
    assert [case for case in CASES if not (GOLDEN / case / "native.py").exists()] == []
    assert [case for case in CASES if not (GOLDEN / case / "case.toml").exists()] == []


def test_each_target_has_cases() -> None:
    assert {target for _, target in PAIRS} == set(TARGETS)
    recorded = {(p.parent.name, p.name) for p in GOLDEN.glob("*/expected_*.py")}
    assert recorded == {(case, expected(target)) for case, target in PAIRS}


@pytest.mark.parametrize(("case", "target"), PAIRS)
def test_the_migration_is_the_recorded_one(case: str, target: str, golden: Golden) -> None:
    golden(case, expected(target), migrated(case, target).data)


@pytest.mark.parametrize(("case", "target"), PAIRS)
def test_the_findings_are_the_recorded_ones(case: str, target: str, golden: Golden) -> None:
    beside = "" if target == DEFAULT else f"_{target.replace('.', '_')}"
    golden(case, f"findings{beside}.json", findings_of(migrated(case, target)))


@pytest.mark.parametrize(("case", "target"), PAIRS)
def test_the_result_is_a_sound_module_with_all_its_comments(case: str, target: str) -> None:
    outcome = migrated(case, target)
    assert not outcome.failed, outcome.findings
    assert compiles(outcome.code)
    assert undefined_names(outcome.code) == set()
    assert lost_comments(outcome.source, outcome.code) == []


@pytest.mark.parametrize(("case", "target"), PAIRS)
def test_a_second_run_leaves_the_result_as_it_is(case: str, target: str) -> None:
    once = migrated(case, target)
    again = migrate_bytes(once.data, settings(case, target), "native.py")
    assert again.data == once.data, difference(once.data, again.data, case)
