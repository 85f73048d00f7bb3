"""Scripts that are verified as several replicas: against native ranks, or against larger batches."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from programs import program

from xla_migrate.api import migrate_source
from xla_migrate.verify import Options, Outcome, Runner, Verdict, verifying
from xla_migrate.verify.verifying import Runs

pytestmark = pytest.mark.slow


@pytest.fixture
def verify(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """``verify(native, migrated)`` runs two replicas of one program against another."""

    def verified(native: str, migrated: str) -> Verdict:
        def by_hand(paths: list[str], options: Options) -> dict[str, SimpleNamespace]:
            result = SimpleNamespace(data=migrated.encode(), changed=True, failed=False, findings=())
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


CHAOTIC = """\
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
torch.manual_seed(0)
rank = int(os.environ["LOCAL_RANK"])
mixing = torch.randn(64, 64, device=f"cuda:{rank}") / 8
model = DistributedDataParallel(torch.nn.Linear(1, 64, bias=False).to(f"cuda:{rank}"))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
one = torch.ones(1, 1, device=f"cuda:{rank}")
for step in range(40):
    state = model(one)[0]
    target = torch.sin(4 * (mixing @ state)).detach()
    loss = (state - target).pow(2).sum() / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("factor", ["4", "4.004"])
def test_rounding_that_grows_in_ranks_is_no_divergence_and_a_fault_is(verify, factor: str) -> None:
    migrated = migrate_source(CHAOTIC).data.decode().replace("sin(4 ", f"sin({factor} ")
    verdict = verify(CHAOTIC, migrated)
    assert "shaken" in verify.stages
    assert verdict.floor is not None
    assert verdict.floor > 1e-2
    assert (verdict.outcome is Outcome.WITHIN) == (factor == "4"), verdict.reason


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


@pytest.fixture
def shuffled(runner: Runner, tmp_path: Path):
    """``shuffled(changed)`` verifies a script of one process that shuffles, as the tool migrates it."""

    def verified(old: str = "", new: str = "") -> Verdict:
        migrated_files = verifying.migrated_files

        def broken(paths: list[str], options: Options) -> dict[str, SimpleNamespace]:
            texts = {path: result.code for path, result in migrated_files(paths, options).items()}
            assert any(old in text for text in texts.values())
            made = {path: text.replace(old, new) if old else text for path, text in texts.items()}
            return {
                path: SimpleNamespace(data=text.encode(), changed=True, failed=False, findings=())
                for path, text in made.items()
            }

        script = tmp_path / "train.py"
        script.write_text(SCRIPT)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(verifying, "migrated_files", broken)
            runs = Runs(runner, script, [], Options(timeout=100.0, replicas=2), lambda stage, steps: None)
            return runs.verdict()

    return verified


SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
x = torch.randn(54, 6, generator=torch.Generator().manual_seed(1))
test = DataLoader(TensorDataset(x[:20], x[:20, :1]), batch_size=10, shuffle=True)
loader = DataLoader(TensorDataset(x, x[:, :2].sum(1, keepdim=True)), batch_size=8, shuffle=True)
model = nn.Linear(6, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(1, 4):
    for a, b in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a.cuda()), b.cuda())
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for a, b in test:
            nn.functional.mse_loss(model(a.cuda()), b.cuda())
"""


def test_a_shuffled_script_is_compared_in_the_order_of_the_replicas(shuffled) -> None:
    verdict = shuffled()
    assert verdict.outcome is Outcome.WITHIN, verdict.reason
    assert verdict.comparison.losses == 12
    assert any("in the order of the replicas" in note for note in verdict.notes)


def test_another_learning_rate_is_seen_in_a_shuffled_script(shuffled) -> None:
    verdict = shuffled("lr=0.1", "lr=0.2")
    assert verdict.outcome is Outcome.DIVERGED


def test_epochs_that_are_not_shuffled_anew_are_seen_in_the_native_order(shuffled) -> None:
    verdict = shuffled("sampler.set_epoch(epoch)", "pass")
    assert verdict.outcome is Outcome.DIVERGED
    assert "sampler.set_epoch(epoch) is missing" in verdict.reason
