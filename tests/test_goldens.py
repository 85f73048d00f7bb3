"""Every golden case: its migration is the expected one, sound, and final.

A project is recorded as a folder ``expected_<target>``, file by file.
``pytest tests/test_goldens.py --update-goldens`` writes the expected files and prints what changed.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from golden_cases import settings_of, sources_of
from soundness import compiles, lost_comments, undefined_names

from xla_transforms.engine import Outcome, Settings, migrate_program
from xla_transforms.targets import DEFAULT, TARGETS

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())


def targets_of(case: str) -> list[str]:
    """The default target, and those that ``case.toml`` lists under ``targets``."""
    return [DEFAULT, *settings_of(GOLDEN / case).get("targets", [])]


def expected(case: str, target: str) -> dict[str, str]:
    """Where the result of each native file stands, below the folder of the case."""
    name = f"expected_{target.replace('.', '_')}"
    paths = sources_of(GOLDEN / case)
    return {path: f"{name}.py" if path == "native.py" else f"{name}/{path}" for path in paths}


PAIRS = [(case, target) for case in CASES for target in targets_of(case)]
Golden = Callable[[str, str, str, bytes], None]


@cache
def settings(case: str, target: str) -> Settings:
    asked = settings_of(GOLDEN / case).get("distributed", "auto")
    return Settings(target=target, distributed=asked)


@cache
def migrated(case: str, target: str) -> dict[str, Outcome]:
    files = {name: path.read_bytes() for name, path in sources_of(GOLDEN / case).items()}
    return migrate_program(files, settings(case, target))


def findings_of(outcomes: dict[str, Outcome]) -> bytes:
    """The findings as they stand in ``findings.json``."""
    found = [
        {
            **({} if len(outcomes) == 1 else {"file": path}),
            "code": f.code,
            "severity": f.severity.label,
            "line": f.span.line,
            "message": f.message,
        }
        for path, outcome in outcomes.items()
        for f in outcome.findings
    ]
    return (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode()


def difference(before: bytes, after: bytes, name: str) -> str:
    old, new = (data.decode("utf-8", "replace").splitlines(keepends=True) for data in (before, after))
    return "".join(difflib.unified_diff(old, new, f"{name} (recorded)", f"{name} (now)"))


@pytest.fixture
def golden(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Golden:
    """Compares what a case gives with its recorded file; with ``--update-goldens`` records it.

    What was never recorded is shown against the native file of that path, or against nothing.
    """

    def compare(case: str, name: str, native: str, data: bytes) -> None:
        path = GOLDEN / case / name
        update = request.config.getoption("--update-goldens")
        recorded = path.read_bytes() if path.exists() else None
        if recorded == data:
            return
        if recorded is None and not update:
            pytest.fail(f"{case}/{name} is not recorded: scripts/update_goldens writes it", pytrace=False)
        before = sources_of(GOLDEN / case)[native].read_bytes() if native else b""
        changed = difference(before if recorded is None else recorded, data, f"{case}/{name}")
        if not update:
            pytest.fail(f"{case} gives something else:\n{changed}", pytrace=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        with capsys.disabled():
            print("\n" + changed, end="")

    return compare


def test_there_are_forty_cases_and_each_is_complete() -> None:
    assert len(CASES) >= 40
    missing = [path for case in CASES for path in sources_of(GOLDEN / case).values() if not path.exists()]
    assert missing == []
    assert [case for case in CASES if not (GOLDEN / case / "case.toml").exists()] == []


def test_each_target_has_cases() -> None:
    assert {target for _, target in PAIRS} == set(TARGETS)
    recorded = {p.relative_to(GOLDEN).as_posix() for p in GOLDEN.glob("*/expected_*/**/*.py")}
    recorded |= {p.relative_to(GOLDEN).as_posix() for p in GOLDEN.glob("*/expected_*.py")}
    names = {f"{case}/{name}" for case, target in PAIRS for name in expected(case, target).values()}
    assert recorded == names


def test_there_are_twelve_projects_of_three_to_eight_files() -> None:
    projects = {case: len(sources_of(GOLDEN / case)) for case in CASES if (GOLDEN / case / "native").is_dir()}
    assert len(projects) >= 12
    assert {case: count for case, count in projects.items() if not 3 <= count <= 8} == {}


@pytest.mark.parametrize(("case", "target"), PAIRS)
def test_the_migration_is_the_recorded_one(case: str, target: str, golden: Golden) -> None:
    for path, name in expected(case, target).items():
        golden(case, name, path, migrated(case, target)[path].data)


@pytest.mark.parametrize(("case", "target"), PAIRS)
def test_the_findings_are_the_recorded_ones(case: str, target: str, golden: Golden) -> None:
    beside = "" if target == DEFAULT else f"_{target.replace('.', '_')}"
    golden(case, f"findings{beside}.json", "", findings_of(migrated(case, target)))


@pytest.mark.parametrize(("case", "target"), PAIRS)
def test_the_result_is_a_sound_module_with_all_its_comments(case: str, target: str) -> None:
    for outcome in migrated(case, target).values():
        assert not outcome.failed, outcome.findings
        assert compiles(outcome.code)
        assert undefined_names(outcome.code) == set()
        assert lost_comments(outcome.source, outcome.code) == []


@pytest.mark.parametrize(("case", "target"), PAIRS)
def test_a_second_run_leaves_the_result_as_it_is(case: str, target: str) -> None:
    once = {path: outcome.data for path, outcome in migrated(case, target).items()}
    for path, again in migrate_program(once, settings(case, target)).items():
        assert again.data == once[path], difference(once[path], again.data, path)
