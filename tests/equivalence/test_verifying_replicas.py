"""Scripts that are verified as several replicas: against native ranks, or against larger batches."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from programs import program

from xla_migrate.verify import Options, Outcome, Runner, Verdict, verifying
from xla_migrate.verify.verifying import Runs

pytestmark = pytest.mark.slow


@pytest.fixture
def verify(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """``verify(native, migrated)`` runs two replicas of one program against another."""

    def verified(native: str, migrated: str) -> Verdict:
        def by_hand(paths: list[str], options: Options) -> dict[str, SimpleNamespace]:
            result = SimpleNamespace(data=migrated.encode(), changed=True, failed=False)
            return dict.fromkeys(paths, result)

        monkeypatch.setattr(verifying, "migrated_files", by_hand)
        script = tmp_path / "train.py"
        script.write_text(native)
        stages: list[str] = []
        options = Options(timeout=100.0, replicas=2)
        runs = Runs(runner, script, [], options, lambda stage, steps: stages.append(stage))
        verdict = runs.verdict()
        verified.stages = stages  # type: ignore[attr-defined]
        return verdict

    return verified


def test_ranks_are_compared_one_by_one(verify) -> None:
    verdict = verify(program("ddp_native"), program("ddp_xla"))
    assert verdict.outcome is Outcome.WITHIN, verdict.reason
    assert "folded" not in verify.stages


def test_a_script_for_one_device_is_compared_with_batches_of_twice_the_size(verify) -> None:
    verdict = verify(program("one_native"), program("one_xla").replace("default=4", "default=8"))
    assert verdict.outcome is Outcome.WITHIN, verdict.reason
    assert "folded" in verify.stages


def test_replicas_that_never_talk_are_named(verify) -> None:
    verdict = verify(program("one_native"), program("one_native").replace(".cuda()", ".to('xla')"))
    assert verdict.outcome is Outcome.DIVERGED
    assert "each of the 2 replicas ran alone" in verdict.reason


def test_a_missing_reduction_is_named(verify) -> None:
    alone = program("ddp_xla").replace("xm.reduce_gradients(optimizer)", "pass")
    verdict = verify(program("ddp_native"), alone)
    assert verdict.outcome is Outcome.DIVERGED
    assert "reduce" in verdict.reason


def test_ranks_that_cannot_run_natively_are_no_divergence(verify) -> None:
    verdict = verify("import nothing_of_this_name\n", "")
    assert verdict.outcome is Outcome.NOT_COMPARABLE
    assert verdict.reason.startswith("could not run natively: ModuleNotFoundError")


def test_a_rank_that_fails_alone_ends_the_comparison(verify) -> None:
    failing = program("ddp_native") + '\nif os.environ["RANK"] == "1":\n    raise KeyError("second")\n'
    verdict = verify("import os\n" + failing, program("ddp_xla"))
    assert verdict.reason == "could not run natively: KeyError: 'second'"
    assert verify.stages == ["native"]
