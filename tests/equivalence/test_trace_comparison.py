"""What counts as the same training, on traces made by hand."""

from __future__ import annotations

import json
import math
import zipfile

import numpy as np
import pytest

from xla_migrate.verify import BOUNDS, Failure, Outcome, Sample, Step, Trace, compare, judge
from xla_migrate.verify.causes import explained
from xla_migrate.verify.compare import floor_of
from xla_migrate.verify.judge import SENT, judge_replicas
from xla_migrate.verify.trace import Batch, Collective, HostRead
from xla_migrate.verify.trace_file import BadTrace, Replacing, load, save

FLOAT32 = BOUNDS["float32"]


def trace(losses=(1.0, 0.5, 0.25), weights=(1.0, -2.0), **fields):
    """A trace of one optimizer with one parameter."""
    steps = [Step(0, number) for number, _ in enumerate(losses, 1)]
    values = {"losses": list(losses), "steps": steps, "parameters": [[np.array(weights)]]}
    return Trace("native", "values", **{**values, **fields})


def test_a_run_agrees_with_itself():
    result = compare(trace(), trace(), FLOAT32)
    assert result.agree
    assert (result.losses, result.worst_loss, result.worst_parameters) == (3, 0.0, 0.0)
    assert str(result).startswith("3 losses agree")


def test_differences_within_the_bound_agree_and_are_told():
    result = compare(trace(), trace([1.0, 0.50001, 0.25], [1.00001, -2.0]), FLOAT32)
    assert result.agree
    assert result.worst_loss == pytest.approx(2e-5)
    assert 0 < result.worst_parameters < 1e-4


def test_losses_that_are_no_scalars_on_both_sides_agree():
    assert compare(trace([1.0, None]), trace([1.0, None]), FLOAT32).agree


@pytest.mark.parametrize(
    ("rank", "wrapped", "agree"), [(0, True, False), (1, False, False), (1, True, True)]
)
def test_running_means_that_a_wrapper_sends_to_the_other_ranks(rank, wrapped, agree):
    calls = [Collective("DistributedDataParallel", 3, "train.py:5", 0)] if wrapped else []
    held = {"norm.running_mean": np.array([0.5, 0.25])}, {"norm.running_mean": np.array([0.4, 0.25])}
    native = trace(rank=rank, world=2, collectives=calls, modules=[held[0]])
    migrated = trace(rank=rank, world=2, modules=[held[1]])
    assert compare(native, migrated, FLOAT32).agree is agree


@pytest.mark.parametrize(
    ("migrated", "agree"),
    [(("backward", "reduce", "clip") * 2, True), (("backward", "clip", "reduce") * 2, False)],
)
def test_gradients_are_clipped_behind_the_reduction_of_each_backward_pass(migrated, agree):
    native = trace([1.0], steps=[Step(0, 1, order=["backward", "clip"] * 2)], world=2)
    other = trace([1.0], steps=[Step(0, 1, order=list(migrated))], world=2)
    assert compare(native, other, FLOAT32).agree is agree


def test_other_buffers_of_wrapped_models_are_compared():
    calls = [Collective("DistributedDataParallel", 3, "train.py:5", 0)]
    native = trace(rank=1, world=2, collectives=calls, modules=[{"shadow": np.array([0.5])}])
    assert not compare(native, trace(rank=1, world=2, modules=[{"shadow": np.array([0.4])}]), FLOAT32).agree


@pytest.mark.parametrize("name", ["running_mean", "shadow"])
def test_it_is_told_that_running_statistics_are_sent(name):
    calls = [Collective("DistributedDataParallel", 3, "train.py:5", 0)]
    held = [{"running_var": np.array([0.5])}] if name == "running_mean" else [{"shadow": np.array([0.5])}]
    ranks = [trace(rank=rank, world=2, collectives=calls, modules=held) for rank in range(2)]
    assert (SENT in judge_replicas(ranks, ranks).notes) is (name == "running_mean")


def test_a_loss_near_zero_is_measured_by_the_largest_loss():
    assert compare(trace([1.0, 1e-9]), trace([1.0, -1e-9]), FLOAT32).agree


def test_a_parameter_near_zero_is_measured_by_the_others():
    ones = [[np.array([1.0, 1.0]), np.array([1e-9])]]
    others = [[np.array([1.0, 1.0]), np.array([-1e-9])]]
    assert compare(trace(parameters=ones), trace(parameters=others), FLOAT32).agree


def test_bfloat16_has_wider_bounds():
    other = trace([1.0, 0.505, 0.25])
    assert compare(trace(), other, BOUNDS["bfloat16"]).agree
    assert not compare(trace(), other, FLOAT32).agree


def test_the_first_loss_that_differs_is_named():
    first = compare(trace(), trace([1.0, 0.51, 0.3]), FLOAT32).first
    assert first is not None
    assert (first.kind, first.where) == ("loss", "backward 2 of 3")
    assert first.difference == pytest.approx(0.02)
    assert "native 0.5, migrated 0.51" in str(first)


def test_a_loss_that_differs_comes_before_a_number_of_steps_that_differs():
    first = compare(trace(), trace([1.0, 0.51]), FLOAT32).first
    assert first is not None
    assert first.kind == "loss"


@pytest.mark.parametrize("losses", [(1.0, 0.5), (1.0, 0.5, 0.25, 0.1)], ids=["missing", "too many"])
def test_a_number_of_steps_that_differs(losses):
    first = compare(trace(), trace(losses), FLOAT32).first
    assert first is not None
    values = (first.native, first.migrated)
    assert (first.kind, *values) == ("optimizer steps", "3 steps", f"{len(losses)} steps")


def test_steps_that_were_skipped():
    result = explained(compare(trace(), trace(steps=[Step(0, 1), Step(0, 3)]), FLOAT32), trace(), trace())
    assert result.first is not None
    assert (result.first.kind, result.first.where) == ("optimizer steps", "at step 2")


def test_a_step_that_is_taken_twice_is_named():
    native, migrated = trace(), trace(steps=[Step(0, 1), Step(0, 2), Step(0, 2), Step(0, 3)])
    first = explained(compare(native, migrated, FLOAT32), native, migrated).first
    assert first is not None
    assert "steps twice after loss 2" in first.cause


@pytest.mark.parametrize("pair", [(math.nan, 1.0), (1.0, math.nan), (math.nan, math.nan)])
def test_not_a_number_is_never_equal(pair):
    result = compare(trace(losses=[pair[0]]), trace(losses=[pair[1]]), FLOAT32)
    assert not result.agree


def test_a_scalar_against_something_else():
    assert not compare(trace([1.0]), trace([None]), FLOAT32).agree


@pytest.mark.parametrize("weights", [(1.0, -2.01), (1.0, math.nan), (1.0, -2.0, 0.0)])
def test_final_parameters_that_differ(weights):
    first = compare(trace(), trace(weights=weights), FLOAT32).first
    assert first is not None
    assert (first.kind, first.name) == ("final parameter", "optimizer 0, parameter 0")


@pytest.mark.filterwarnings("error")
def test_the_infinities_of_a_mask_are_equal():
    mask = {"mask": np.array([0.0, -math.inf])}
    assert compare(trace(modules=[mask]), trace(modules=[mask]), FLOAT32).agree
    moved = {"mask": np.array([0.5, -math.inf])}
    assert not compare(trace(modules=[mask]), trace(modules=[moved]), FLOAT32).agree


def test_parameters_can_be_left_out_by_name():
    assert compare(trace(), trace(weights=(5.0, 5.0)), FLOAT32, ignore=["0.0"]).agree
    assert not compare(trace(), trace(weights=(5.0, 5.0)), FLOAT32, ignore=["0.1"]).agree


def test_optimizers_and_parameters_that_are_missing():
    assert not compare(trace(), trace(parameters=[]), FLOAT32).agree
    assert not compare(trace(), trace(parameters=[[]]), FLOAT32).agree


def test_a_failure_comes_first_and_shows_its_frames():
    failed = trace([9.0], failure=Failure("ValueError", "no", ["train.py:3 in main: step()"]))
    for pair in ((trace(), failed), (failed, trace())):
        first = compare(*pair, FLOAT32).first
        assert first is not None
        assert first.kind == "failure"
        assert "train.py:3 in main: step()" in str(first)


@pytest.mark.parametrize(
    ("native", "migrated"),
    [
        ("runs/Dec02_02-29-52_host/a.pt", "runs/Dec02_02-30-01_host/a.pt"),
        ("events.out.tfevents.1796178592.host.10330.0", "events.out.tfevents.1796178598.host.10362.0"),
        ("02_December_2026_02h_29m_52s/net.pth", "02_December_2026_02h_29m_58s/net.pth"),
        ("logs/20261202-022952/log.txt", "logs/20261202-022958/log.txt"),
    ],
)
def test_names_of_files_may_hold_the_time(native, migrated):
    assert compare(trace(files={native: 1}), trace(files={migrated: 2}), FLOAT32).first is None
    (only,) = (compare(trace(files={native: 1}), trace(), FLOAT32).first,)
    assert only.kind == "files written by one side alone"


@pytest.mark.parametrize(
    ("native", "migrated"),
    [("epoch_1.pt", "epoch_2.pt"), ("step_2048.pt", "step_2049.pt"), ("best-0.91.pt", "best-0.92.pt")],
)
def test_names_of_files_that_tell_how_far_it_came_are_compared(native, migrated):
    first = compare(trace(files={native: 1}), trace(files={migrated: 1}), FLOAT32).first
    assert (first.kind, first.native, first.migrated) == ("files written by one side alone", native, migrated)


def test_a_trace_survives_the_disk(tmp_path):
    kept = trace(
        samples=[Sample("step", 1, 2, 3, {"aten::x": 4})],
        failure=Failure("ValueError", "no", ["line"]),
        files={"model.pt": 12},
        modules=[{"norm.mean": np.zeros(3, np.float32), "count": np.array(4)}],
        batches=7,
        stdout="epoch 1\n",
        loaded=[Batch(0, 1, 2, [3, 4], 0.5)],
        reads=[HostRead("train.py:3", "item", 2, 1, 1)],
    )
    save(kept, tmp_path / "run.trace")
    back = load(tmp_path / "run.trace")
    assert [path.name for path in tmp_path.iterdir()] == ["run.trace"]
    assert compare(kept, back, FLOAT32).first.kind == "failure"
    for name in ("losses", "steps", "samples", "failure", "files", "batches", "loaded", "reads"):
        assert getattr(back, name) == getattr(kept, name), name
    assert back.stdout == "epoch 1\n"
    assert back.modules[0]["norm.mean"].dtype == np.float32
    assert back.modules[0]["count"] == 4


@pytest.mark.parametrize("kept", [0, 10, 400, -1])
def test_a_trace_that_was_cut_off_is_none(tmp_path, kept):
    save(trace(), tmp_path / "run.trace")
    whole = (tmp_path / "run.trace").read_bytes()
    (tmp_path / "run.trace").write_bytes(whole[:kept])
    with pytest.raises(BadTrace, match="record it again"):
        load(tmp_path / "run.trace")


def test_a_full_disk_leaves_the_trace_that_was_there(tmp_path, monkeypatch):
    path = tmp_path / "run.trace"
    save(trace(), path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"), Replacing(path, sync=full) as stream:
        stream.write(b"half")
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["run.trace"]


def test_a_trace_of_another_version_says_so(tmp_path):
    path = tmp_path / "run.trace"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("trace.json", json.dumps({"version": 0}))
    with pytest.raises(BadTrace, match="another version"):
        load(path)


def test_a_run_may_be_as_far_away_as_rounding_carries_the_native_one():
    native = trace([1.0, 0.5, 0.25])
    floor = floor_of(native, trace([1.0, 0.502, 0.26]))
    assert [floor.at("loss", number) for number in (0, 1, 2, 3)] == pytest.approx([0, 0, 4e-3, 4e-2])
    assert floor.worst == pytest.approx(4e-2)
    chaotic = trace([1.0, 0.505, 0.27])
    assert judge(native, chaotic).outcome is Outcome.DIVERGED
    assert judge(native, chaotic, floor=floor).outcome is Outcome.WITHIN


def test_a_difference_before_rounding_could_carry_so_far_is_none_of_chaos():
    native = trace([1.0, 0.5, 0.25])
    floor = floor_of(native, trace([1.0, 0.5, 0.26]))
    first = judge(native, trace([1.0, 0.505, 0.25]), floor=floor).comparison.first
    assert (first.kind, first.where) == ("loss", "backward 2 of 3")
