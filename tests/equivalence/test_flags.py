"""Scripts that let their user choose the device: with each of their own flags, natively and migrated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from golden_cases import Case, read_case
from printed import first_difference

from xla_migrate import migrate_source
from xla_migrate.verify import Runner, Trace, check_executions, compare, iterations_of

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[2] / "golden"
SCRIPTS = {"mnist_no_cuda_flag": "--no-cuda", "no_accel_flag": "--no-accel"}
FLAGS = (
    "--epochs 1",
    "--epochs 1 --dry-run --save-model",
    "--epochs 4 --batch-size 32 --test-batch-size 30 --log-interval 1",
    "--epochs 1 --lr 0.05 --seed 3 --log-interval 2 --save-model",
)
CASES = [(name, flags, on) for name in SCRIPTS for flags in FLAGS for on in ("xla", "cpu")]


class Runs:
    """A script and its migrated form, run with the same arguments."""

    def __init__(self, case: Case, argv: list[str], runner: Runner, folder: Path) -> None:
        self.case, self.argv, self.runner, self.folder = case, argv, runner, folder
        self.migrated = folder / "migrated.py"
        self.migrated.write_text(migrate_source(case.native.read_text(), unsafe_fixes=True).code)
        self.native = self.run(case.native, "native")
        self.values = self.run(self.migrated, "xla")
        self.counted = self.run(self.migrated, "xla", "count")

    def run(self, script: Path, side: str, mode: str = "values") -> Trace:
        workdir = self.folder / f"{side}-{mode}"
        workdir.mkdir()
        trace = self.runner.record(script, side, workdir, mode=mode, argv=self.argv)
        assert trace.failure is None, str(trace.failure)
        return trace


@pytest.fixture(scope="module", params=CASES, ids=lambda case: " ".join(case))
def runs(
    request: pytest.FixtureRequest, runner: Runner, tmp_path_factory: pytest.TempPathFactory
) -> Runs:
    name, flags, on = request.param
    case = read_case(GOLDEN / name)
    assert case is not None
    argv = [*flags.split(), *([SCRIPTS[name]] if on == "cpu" else [])]
    return Runs(case, argv, runner, tmp_path_factory.mktemp("flags"))


def on_cpu(runs: Runs) -> bool:
    return bool({"--no-cuda", "--no-accel"} & set(runs.argv))


def test_the_same_numbers_under_every_flag(runs: Runs):
    result = compare(runs.native, runs.values, runs.case.bounds, runs.case.ignore)
    assert result.agree, str(result)
    assert result.losses == len(runs.native.losses) > 0


def test_the_same_lines_and_files_under_every_flag(runs: Runs):
    assert first_difference(runs.native.stdout, runs.values.stdout, runs.case.bounds.loss) is None
    assert sorted(runs.values.files) == sorted(runs.native.files)


def test_on_the_cpu_the_migrated_script_computes_bit_for_bit_what_the_native_one_does(runs: Runs):
    if on_cpu(runs):
        assert runs.values.losses == runs.native.losses
        assert runs.values.stdout == runs.native.stdout


def test_the_device_is_the_one_that_the_flags_say(runs: Runs):
    executions = runs.counted.samples[-1].executions
    assert executions == 0 if on_cpu(runs) else executions >= iterations_of(runs.native)


def test_each_iteration_is_one_execution_and_compiling_stops_under_every_flag(runs: Runs):
    if on_cpu(runs):
        return
    limits = runs.case.limits
    if "--epochs 4" not in " ".join(runs.argv):  # the only evaluation loop starts behind the last step
        limits = replace(limits, compile_slack=limits.compile_slack + 1)
    assert check_executions(runs.native, runs.counted, limits) == []
