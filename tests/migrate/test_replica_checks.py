"""What must hold between replicas, on traces made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xla_migrate.verify.replica_checks import aligned, check_replicas, comparable_samples, telling, together
from xla_migrate.verify.trace import Batch, Collective, Evaluation, Failure, Step, Trace

EPOCHS = ([[0, 2], [4, 6]], [[6, 4], [2, 0]])


def step(number, norm=1.0, gradient=0.5, order=("backward", "reduce"), **more):
    more.setdefault("digests", [norm * 2])
    return Step(0, number, [0.1], gradient, [], [norm], order=list(order), gradients=[gradient], **more)


def batches(offset=0, epochs=EPOCHS):
    flat = [(epoch, samples) for epoch, seen in enumerate(epochs) for samples in seen]
    return [Batch(0, epoch, i, [s + offset for s in samples], 0.0) for i, (epoch, samples) in enumerate(flat)]


def replica(rank, **more):
    trace = Trace("xla", "values", rank=rank, world=2)
    trace.losses = [1.0 + rank] * 4
    trace.steps = [step(number, norm=1.0 / number) for number in range(1, 5)]
    trace.reductions = [[1, 1]] * 4
    trace.loaded = batches(rank)
    trace.collectives = [Collective("xm.optimizer_step", 1, "t.py:9", n) for n in range(4)]
    trace.collectives += [Collective("xm.save", 0, "t.py:12", 4)]
    trace.files = {} if rank else {"net.pt": 10}
    trace.names = [["weight"]]
    return replace(trace, **more)


def native(rank, **more):
    return replace(replica(rank), side="native", reductions=[], collectives=[], **more)


NATIVE = [native(0), native(1)]


def pair(**second):
    return [replica(0), replica(1, **second)]


def both(**more):
    return [replica(0, **more), replica(1, **more)]


def test_replicas_that_do_their_part():
    assert check_replicas(pair(), NATIVE) == ()
    assert check_replicas(pair()) == ()


def test_a_single_replica_has_nothing_to_agree_with():
    assert check_replicas([replica(0, reductions=[[0, 0]] * 4)], NATIVE[:1]) == ()


def test_the_padding_of_a_sampler_is_no_repetition():
    epochs = [[0, 2], [4, 5]], [[5, 4], [2, 0]]  # sample 5 is in both
    assert check_replicas([replica(0, loaded=batches(0, epochs)), replica(1)]) == ()


def test_an_evaluation_of_all_samples_on_each_replica_is_no_fault():
    seen = [Batch(1, epoch, 4, [0, 1, 2, 3], 0.0) for epoch in range(2)]
    found = [replica(rank, loaded=[*batches(rank), *seen]) for rank in range(2)]
    assert check_replicas(found, NATIVE) == ()


def test_samples_that_the_native_ranks_share_may_be_shared():
    shared = [replace(one, loaded=batches()) for one in NATIVE]
    assert check_replicas(both(loaded=batches(), files={}), shared) == ()


def test_an_epoch_that_was_cut_off_is_not_looked_at():
    stopped = [replica(rank, loaded=batches(rank)[:3], stopped=True) for rank in range(2)]
    assert check_replicas(stopped, NATIVE) == ()


def test_gradients_reduced_by_other_means():
    assert check_replicas(both(reductions=[[0, 0]] * 4, loaded=[], files={}), NATIVE[:0]) == ()


def test_rounding_in_the_last_bit_is_no_difference():
    steps = [step(number, norm=1.0 / number * (1 + 1e-8)) for number in range(1, 5)]
    assert check_replicas(pair(steps=steps), NATIVE) == ()


def first(traces, natives=NATIVE):
    problems = check_replicas(traces, natives)
    assert problems
    return problems[0]


def test_gradients_that_are_not_reduced():
    traces = both(reductions=[[0, 0]] * 4, files={})
    traces[1].steps = [step(number, gradient=0.7) for number in range(1, 5)]
    assert first(traces).startswith("in step 1 (and 3 more) the gradients are not reduced over the replicas")


def test_some_gradients_that_are_not_reduced():
    reductions = [[1, 1], [0, 1], [1, 1], [1, 1]]
    traces = both(reductions=reductions, files={})
    traces[1].steps = [step(number, gradient=0.7) for number in range(1, 5)]
    assert first(traces).startswith("in step 2 some of the gradients are not reduced")


def test_gradients_that_are_reduced_twice():
    assert "reduced 2 times: xm.optimizer_step reduces" in first(both(reductions=[[2, 2]] * 4, files={}))


def test_gradients_that_are_reduced_with_each_backward():
    order = ("backward", "reduce", "backward", "reduce")
    steps = [step(number, order=order) for number in range(1, 5)]
    found = first(both(reductions=[[2, 2]] * 4, steps=steps, files={}))
    assert "reduced 2 times: once for each backward" in found


def test_a_clip_of_each_backward_pass_stands_behind_its_reduction():
    steps = [step(1, order=("backward", "reduce", "clip", "backward", "reduce", "clip"))]
    assert check_replicas(both(steps=steps, files={}), NATIVE) == ()


def test_a_clip_before_the_reduction():
    steps = [step(1, order=("reduce", "backward", "clip", "reduce"))]
    assert first(both(steps=steps, files={})).startswith("in step 1 gradients are clipped before")


def test_weights_that_differ_from_the_start():
    steps = [step(number, norm=2.0) for number in range(1, 5)]
    found = first(pair(steps=steps))
    assert found.startswith("after step 1 weight differs between replicas 0 and 1 (norm 1 and 2)")
    assert "they start with different weights" in found


def test_weights_that_differ_in_their_signs():
    steps = [step(number, norm=1.0 / number, digests=[-2.0 / number]) for number in range(1, 5)]
    assert "start with different weights" in first(pair(steps=steps))


def test_learning_rates_that_differ():
    steps = [replace(step(n, norm=2.0), learning_rates=[0.2]) for n in range(1, 5)]
    assert "their learning rates differ ([0.1] and [0.2])" in first(pair(steps=steps))


def test_weights_that_part_later():
    steps = [step(1), step(2, norm=7.0)]
    assert "after step 2 weight differs" in first(pair(steps=steps))


def test_replicas_that_see_the_same_samples():
    assert "in epoch 0 every replica sees the same 4 samples" in first(both(loaded=batches(), files={}))


def test_samples_seen_twice():
    epochs = [[0, 3], [5, 6]], [[0, 3], [6, 5]]  # 3 and 5 belong to the other replica
    assert first([replica(0, loaded=batches(0, epochs)), replica(1)]) == (
        "in epoch 0 2 samples are seen more than once by the replicas together"
    )


def test_samples_that_are_left_out():
    cut = [replica(rank, loaded=batches(rank, ([[0, 2]], [[6, 4]]))) for rank in range(2)]
    assert first(cut) == "in epoch 0 4 of the 8 samples that the native run sees are seen by no replica"


def test_epochs_in_the_same_order():
    again = [replica(rank, loaded=batches(rank, (EPOCHS[0], EPOCHS[0]))) for rank in range(2)]
    assert first(again).startswith("epoch 1 has its samples in the order of epoch 0")
    unshuffled = [replace(one, loaded=two.loaded) for one, two in zip(NATIVE, again, strict=True)]
    assert check_replicas(again, unshuffled) == ()


@pytest.mark.parametrize("pending", [False, True])
def test_a_save_under_a_rank_guard(pending):
    *calls, save = replica(0).collectives
    alone = replica(0, collectives=[*calls, replace(save, pending=pending)])
    found = check_replicas([alone, replica(1, collectives=calls)], NATIVE)
    assert [text.partition(":12 ")[2][:37] for text in found] == pending * [
        "is called by replica 0 and not by rep"
    ]


def test_a_file_that_all_replicas_write():
    assert first(pair(files={"net.pt": 10})).startswith("net.pt is written by replicas 0, 1")


def test_a_file_that_all_ranks_write_natively_too():
    ranks = [replace(one, files={"log.txt": 1}) for one in NATIVE]
    assert check_replicas(both(files={"log.txt": 1}), ranks) == ()


def test_collectives_in_another_order():
    calls = [replace(replica(1).collectives[0], name="xm.all_gather"), *replica(1).collectives[1:]]
    assert first(pair(collectives=calls)) == (
        "collective 1: replica 0 calls xm.optimizer_step at t.py:9; replica 1 calls xm.all_gather at t.py:9"
    )


def test_another_number_of_steps():
    problems = check_replicas(pair(steps=[step(1)]), NATIVE)
    assert problems == (
        "the replicas take another number of optimizer steps: 4 by replica 0, 1 by replica 1",
    )


def test_a_failure_comes_before_what_the_others_say_of_it():
    own, told = Failure("ValueError", "no"), Failure("ReplicaError", "replica 1 failed before it")
    traces = [replica(0, failure=told), replica(1, failure=own, files={})]
    assert check_replicas(traces, NATIVE) == ("replica 1 failed: ValueError: no",)
    traces = [replica(0, failure=told), replica(1, failure=told)]
    assert check_replicas(traces, NATIVE) == ("replica 1 failed before it",)


def test_runs_are_paired_rank_by_rank_or_all_with_one():
    traces = pair()
    assert aligned(NATIVE, traces) == list(zip(NATIVE, traces, strict=True))
    ((one, other),) = aligned(NATIVE[:1], traces)
    assert one is NATIVE[0]
    assert other.losses == [1.5] * 4
    with pytest.raises(ValueError, match="2 native ranks cannot be compared with 3 replicas"):
        aligned(NATIVE, [*traces, replica(2)])


def test_evaluations_of_all_replicas_count_as_one():
    traces = [replica(0), replica(1)]
    traces[0].evaluations = [Evaluation("Net", 4, 3.0, 10)]
    traces[1].evaluations = [Evaluation("Net", 4, 4.0, 10)]
    (made,) = together(traces).evaluations
    assert made.elements == 20
    assert made.value == pytest.approx(12.5**0.5)


def test_a_native_batch_is_what_the_replicas_see_together():
    epochs = [[0, 1, 2, 3], [4, 5, 6, 7]], [[6, 7, 4, 5], [0, 1, 2, 3]]
    whole = replace(native(0), loaded=batches(0, epochs))
    assert comparable_samples(whole, pair()) == ""
    other = replace(whole, loaded=batches(0, ([[0, 1, 2, 4], [3, 5, 6, 7]],)))
    assert "batch 1 of the native run" in comparable_samples(other, pair())


def test_the_rank_that_did_not_end_tells_more_than_those_that_waited_for_it():
    waited = native(0, failure=Failure("ReplicaError", "replica 0 ended without it; another does not come"))
    hung = native(1, failure=Failure("Timeout", "no end after 30 s", ["train.py:9 in main: del model"]))
    assert telling([waited, hung]) is hung
    assert telling([waited, native(1)]) is waited
    assert telling(NATIVE) is NATIVE[0]
