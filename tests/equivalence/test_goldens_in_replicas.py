"""Every golden case of several processes: its replicas train to the numbers of the native ranks, and
do the same as one another. Those of a script of one process train as it does on their batches together."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_cases import Case, runnable_cases
from printed import first_difference

from xla_migrate.verify import Options, Outcome, Runner
from xla_migrate.verify.judge import judge_replicas
from xla_migrate.verify.replica_runner import record_replicas
from xla_migrate.verify.verifying import Runs

pytestmark = pytest.mark.slow

CASES = [case for case in runnable_cases() if case.replicas > 1 and not case.distributed]
RUNS = [(case, case.replicas) for case in CASES]
AS_ONE = {"ddp_imagenet", "ddp_mp_spawn", "ddp_slurm", "ddp_torchrun"}  # one of each way to be launched
RUNS += [(case, 1) for case in CASES if case.name in AS_ONE]
AS_FOUR = {"ddp_slurm", "ddp_torchrun"}
RUNS += [(case, 4) for case in CASES if case.name in AS_FOUR]
ALONE = [case for case in runnable_cases() if case.distributed]


@pytest.mark.parametrize(("case", "count"), RUNS, ids=[f"{case.name}-{count}" for case, count in RUNS])
def test_replicas_train_as_the_native_ranks(
    case: Case, count: int, runner: Runner, tmp_path: Path
) -> None:
    migrated = case.migrated(tmp_path / "migrated")

    def run(script, side):
        workdir = tmp_path / side
        workdir.mkdir()
        traces = record_replicas(
            runner, script, side, workdir, count, argv=case.argv, timeout=120.0
        )
        failures = [f"rank {trace.rank}: {trace.failure}" for trace in traces if trace.failure is not None]
        if failures:  # with the stacks of one that did not end
            pytest.fail("\n".join([side, *failures]), pytrace=False)
        return traces

    native, replicas = run(case.native, "native"), run(migrated, "xla")
    verdict = judge_replicas(native, replicas, bounds=case.bounds, ignore=case.ignore)
    assert verdict.outcome in (Outcome.EQUAL, Outcome.WITHIN), verdict.reason
    assert verdict.replicas == ()
    assert verdict.comparison is not None
    assert verdict.comparison.losses
    assert {f for trace in replicas for f in trace.files} == {f for trace in native for f in trace.files}
    for one, other in zip(native, replicas, strict=True):
        assert first_difference(one.stdout, other.stdout, case.bounds.loss) is None


@pytest.mark.parametrize("case", ALONE, ids=[case.name for case in ALONE])
def test_replicas_train_as_one_process_on_all_their_batches(case: Case, runner: Runner) -> None:
    stages: list[str] = []
    options = Options(timeout=120.0, replicas=case.replicas, unsafe_fixes=True)
    runs = Runs(runner, case.native, list(case.argv), options, lambda stage, steps: stages.append(stage))
    verdict = runs.verdict()
    assert verdict.outcome in (Outcome.EQUAL, Outcome.WITHIN), verdict.reason
    assert verdict.replicas == ()
    assert "folded" in stages
