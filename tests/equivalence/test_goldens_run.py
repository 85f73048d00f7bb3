"""Every runnable golden case, executed natively and migrated: the same numbers, and one execution
an iteration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from golden_cases import Case, runnable_cases
from printed import first_difference

from xla_migrate import migrate_source
from xla_migrate.verify import Outcome, Runner, Trace, check_executions, judge

pytestmark = pytest.mark.slow

CASES = [case for case in runnable_cases() if case.replicas == 1]


@dataclass(frozen=True)
class Runs:
    """The three recorded runs of one case."""

    case: Case
    native: Trace
    values: Trace
    counted: Trace


@pytest.fixture(scope="module", params=CASES, ids=[case.name for case in CASES])
def runs(
    request: pytest.FixtureRequest,
    runner: Runner,
    tmp_path_factory: pytest.TempPathFactory,
) -> Runs:
    case: Case = request.param
    scripts = tmp_path_factory.mktemp("scripts")
    migrated = scripts / "migrated.py"
    migrated.write_text(migrate_source(case.native.read_text(), unsafe_fixes=True).code)

    def run(script: Path, side: str, mode: str = "values") -> Trace:
        workdir = tmp_path_factory.mktemp(f"{side}-{mode}")
        return runner.record(script, side, workdir, mode=mode, argv=case.argv)

    return Runs(
        case, run(case.native, "native"), run(migrated, "xla"), run(migrated, "xla", "count")
    )


def test_the_native_run_trains(runs: Runs):
    assert runs.native.failure is None, str(runs.native.failure)
    assert runs.native.losses


def test_every_loss_and_the_final_parameters_agree(runs: Runs):
    case = runs.case
    verdict = judge(runs.native, runs.values, bounds=case.bounds, ignore=case.ignore)
    assert verdict.outcome in (Outcome.EQUAL, Outcome.WITHIN), verdict.reason


def test_each_iteration_is_one_execution_and_compiling_stops(runs: Runs):
    if runs.case.not_counted:
        assert runs.counted.failure is None, str(runs.counted.failure)
        return
    assert check_executions(runs.native, runs.counted, runs.case.limits) == []


def test_the_same_files_are_written(runs: Runs):
    assert sorted(runs.values.files) == sorted(runs.native.files)


def test_the_same_values_are_printed(runs: Runs):
    if runs.case.prints_otherwise:
        assert len(runs.native.stdout.splitlines()) == len(runs.values.stdout.splitlines())
        return
    bound = runs.case.bounds.loss
    assert first_difference(runs.native.stdout, runs.values.stdout, bound) is None
