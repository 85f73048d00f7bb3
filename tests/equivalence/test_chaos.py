"""Programs in which a last digit grows to the whole number: they are judged by what rounding alone does."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from xla_migrate.api import Result, migrate_source
from xla_migrate.verify import Options, Outcome, Runner, verifying
from xla_migrate.verify.verifying import Runs

pytestmark = pytest.mark.slow

CHAOTIC = textwrap.dedent("""\
    import torch

    torch.manual_seed(0)
    mixing = torch.randn(64, 64, device="cuda") / 8
    state = torch.nn.Parameter(torch.randn(64, device="cuda"))
    optimizer = torch.optim.SGD([state], lr=1.0)
    for step in range(40):
        target = torch.sin(4 * (mixing @ state)).detach()
        loss = (state - target).pow(2).sum() / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""")


@pytest.fixture
def runs(runner: Runner, tmp_path: Path) -> Runs:
    script = tmp_path / "train.py"
    script.write_text(CHAOTIC)
    return Runs(runner, script, [], Options(timeout=100.0), lambda stage, steps: None)


def migrate_with(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Let the migration also make a fault."""
    faulty = CHAOTIC.replace(old, new)
    assert faulty != CHAOTIC

    def migrated(paths: list[str], options: Options) -> dict[str, Result]:
        return {path: migrate_source(faulty, path=path) for path in paths}

    monkeypatch.setattr(verifying, "migrated_files", migrated)


def test_rounding_that_grows_is_no_divergence(runs: Runs) -> None:
    verdict = runs.verdict()
    assert verdict.outcome is Outcome.WITHIN, verdict.reason
    assert verdict.comparison is not None
    assert verdict.comparison.worst_parameters > 1e-2
    assert verdict.floor is not None
    assert verdict.floor > 1e-2


@pytest.mark.parametrize(("old", "new"), [("4 * (", "4.004 * ("), ("torch.sin(", "torch.tanh(")])
def test_a_fault_is_seen_before_rounding_has_grown(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    migrate_with(monkeypatch, old, new)
    verdict = runs.verdict()
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.comparison is not None
    assert verdict.comparison.first is not None
    first = verdict.comparison.first
    assert first.where == "backward 1 of 40"


def test_a_doubled_step_is_no_chaos(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate_with(monkeypatch, "    optimizer.step()\n", "    optimizer.step()\n    optimizer.step()\n")
    verdict = runs.verdict()
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.floor is None  # told from the steps, without another run


def test_a_missing_file_is_told_first_where_rounding_explains_the_numbers(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrote = CHAOTIC + 'open("last.txt", "w").write("done")\n'
    runs.script.write_text(wrote)
    migrate_with(monkeypatch, "    optimizer.step()\n", "    optimizer.step()\n\n")
    verdict = runs.verdict()
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.comparison is not None
    assert verdict.comparison.first is not None
    assert verdict.comparison.first.kind == "files written by one side alone"
    assert verdict.floor is not None
