"""Goldens for the older targets, run on torch 2.1 and torch_xla 2.1, against the native run.

The native script runs on the torch of these tests, so that what is compared does not share a release. The
SageMaker containers' torch 1.13 is on no package index for this Python: their spelling runs on 2.1, which
has all of it but what ``older_release.py`` fills in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from golden_cases import Case, runnable_cases
from older_environment import Unavailable, interpreter, record

from xla_migrate.verify import Runner, Trace, check_executions, compare
from xla_migrate.verify.replica_runner import record_replicas

pytestmark = pytest.mark.slow

TARGETS = ("2.1", "sagemaker")
SLACK = {
    "amp_optional_branch": {"execution_slack": 8},  # it prints the scale of its scaler
    "checkpoint_resume": {"compile_slack": 3},  # a scaler that resumes begins with other constants
}


def _pairs() -> list[tuple[Case, str]]:
    alone = [case for case in runnable_cases() if case.replicas == 1]
    return [(case, target) for case in alone for target in TARGETS if case.runs_on(target)]


@dataclass(frozen=True)
class Runs:
    """The recorded runs of one case for one target."""

    case: Case
    native: Trace
    values: Trace
    counted: Trace


@pytest.fixture(scope="session")
def older() -> Path:
    try:
        return interpreter()
    except Unavailable as reason:
        pytest.skip(str(reason))


PAIRS = _pairs()
# What a launcher outside calls in each process runs in this one where the main guard calls it.
LAUNCHED = [
    case
    for case in runnable_cases()
    if case.replicas > 1 and case.name != "ddp_process_loop"  # which wants two processes
    and case.runs_on("sagemaker")
]


@pytest.fixture(scope="module", params=PAIRS, ids=[f"{case.name}-{target}" for case, target in PAIRS])
def runs(
    request: pytest.FixtureRequest,
    older: Path,
    runner: Runner,
    tmp_path_factory: pytest.TempPathFactory,
) -> Runs:
    case, target = request.param
    migrated = case.migrated(tmp_path_factory.mktemp("scripts"), target)
    native = runner.record(case.native, "native", tmp_path_factory.mktemp("native"), argv=case.argv)

    def run(mode: str) -> Trace:
        return record(older, migrated, tmp_path_factory.mktemp(mode), mode, case.argv)

    return Runs(case, native, run("values"), run("count"))


def test_every_loss_and_the_final_parameters_agree(runs: Runs) -> None:
    assert runs.native.losses
    result = compare(runs.native, runs.values, runs.case.bounds, runs.case.ignore)
    assert result.agree, str(result)


def test_each_iteration_is_one_execution(runs: Runs) -> None:
    assert runs.counted.failure is None, str(runs.counted.failure)
    if not runs.case.not_counted:
        limits = replace(runs.case.limits, **SLACK.get(runs.case.name, {}))
        assert check_executions(runs.native, runs.counted, limits) == []


@pytest.mark.parametrize("case", LAUNCHED, ids=[case.name for case in LAUNCHED])
def test_what_a_launcher_calls_trains_on_one_device(
    case: Case, older: Path, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_NUM_DEVICES", "1")
    monkeypatch.setenv("XLA_DISABLE_FUNCTIONALIZATION", "1")  # as in the containers' releases
    migrated = case.migrated(tmp_path / "migrated", "sagemaker")
    for side in ("native", "xla"):
        (tmp_path / side).mkdir()
    # by the generator itself, as the older environment draws: its stand-in chooses by weights otherwise
    given = {"argv": case.argv, "rng": "device"}
    (native,) = record_replicas(runner, case.native, "native", tmp_path / "native", 1, **given)
    replica = record(older, migrated, tmp_path / "xla", "values", case.argv)
    assert native.losses
    result = compare(native, replica, case.bounds, case.ignore)
    assert result.agree, str(result)
