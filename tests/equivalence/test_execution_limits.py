"""The counts of compilations and executions that a migrated script may have, on samples made by
hand."""

from __future__ import annotations

import pytest

from xla_migrate.verify import Failure, Limits, Sample, Step, Trace, check_executions, iterations_of
from xla_migrate.verify.trace import Evaluation, HostRead


def native(batches=8, steps=8, optimizers=1):
    made = [Step(optimizer, i) for i in range(steps) for optimizer in range(optimizers)]
    return Trace("native", "values", batches=batches, steps=made)


def counted(executions, compiles=(1, 2, 2, 2, 2, 2, 2, 2), **fields):
    """A run of one optimizer step for each entry of ``compiles``, the compilations so far."""
    samples = [Sample("step", count, i, i) for i, count in enumerate(compiles)]
    samples.append(Sample("end", compiles[-1] + 5, executions, executions))
    return Trace("xla", "count", samples=samples, **fields)


def test_iterations_are_batches_or_else_steps_of_the_busiest_optimizer():
    assert iterations_of(native(batches=10, steps=8)) == 10
    assert iterations_of(native(batches=0, steps=8, optimizers=2)) == 8
    assert iterations_of(native(batches=0, steps=0)) == 0


@pytest.mark.parametrize("executions", [8, 11])
def test_one_execution_an_iteration_and_a_few_more(executions):
    assert check_executions(native(), counted(executions), Limits()) == []


@pytest.mark.parametrize("executions", [1, 7, 12, 16])
def test_too_few_or_too_many_executions(executions):
    (problem,) = check_executions(native(), counted(executions), Limits())
    assert problem.startswith(f"{executions} executions for 8 iterations")


def test_nothing_on_the_device_is_no_missing_barrier():
    (problem,) = check_executions(native(), counted(0), Limits())
    assert problem.startswith("0 executions for ")
    assert "choose the CPU" in problem


def without_a_loader(optimizers=1):
    found = native(batches=0, optimizers=optimizers)
    found.losses = [1.0] * 16
    found.evaluations = [Evaluation("Net", 8, 1.0, 4)] * 5
    return found


def test_rounds_of_accumulation_and_evaluation_are_executions_of_their_own():
    assert check_executions(without_a_loader(), counted(8 + 16 + 5 + 3), Limits()) == []
    (problem,) = check_executions(without_a_loader(), counted(8 + 16 + 5 + 4), Limits())
    assert problem.startswith("33 executions for 8 iterations with 21 rounds of backward or evaluation")


def test_the_losses_of_two_optimizers_are_no_accumulation():
    assert check_executions(without_a_loader(optimizers=2), counted(8 + 5 + 3), Limits()) == []
    assert check_executions(without_a_loader(optimizers=2), counted(8 + 5 + 4), Limits()) != []


def test_rounds_are_batches_where_a_loader_yields_them():
    found = without_a_loader()
    found.batches = 21
    assert check_executions(found, counted(24), Limits()) == []
    assert check_executions(found, counted(25), Limits()) != []


def reading(executions, steps):
    return [HostRead("train.py:9", "float", executions, executions, steps)]


def test_a_picture_that_is_shown_once_is_no_cost_of_a_step():
    assert check_executions(native(), counted(14, reads=reading(3, steps=1)), Limits()) == []
    (problem,) = check_executions(native(), counted(15, reads=reading(3, steps=1)), Limits())
    assert problem.endswith("an iteration has more than one barrier")


@pytest.mark.parametrize("steps", [8, 1], ids=["in each step", "many in one"])
def test_reads_of_each_iteration_are_named(steps):
    (problem,) = check_executions(native(), counted(16, reads=reading(8, steps)), Limits())
    assert "train.py:9 reads a value from the device (float)" in problem


def test_the_number_of_iterations_and_the_slack_can_be_stated():
    assert check_executions(native(), counted(20), Limits(iterations=19, execution_slack=1)) == []
    assert check_executions(native(), counted(8), Limits(iterations=9)) != []
    assert check_executions(native(), counted(9), Limits(execution_slack=0)) != []


def test_compilations_that_go_on():
    growing = counted(8, compiles=(1, 2, 3, 4, 5, 6, 7, 8))
    (problem,) = check_executions(native(), growing, Limits())
    assert problem == "3 compilations in the second half of the steps (0 allowed)"
    assert check_executions(native(), growing, Limits(compile_slack=3)) == []


def test_one_compilation_is_told_in_the_singular():
    (problem,) = check_executions(native(), counted(8, compiles=(1, 2, 3, 4, 5, 5, 5, 6)), Limits())
    assert problem == "1 compilation in the second half of the steps (0 allowed)"


def test_compilations_of_the_first_half_and_after_the_last_step_are_free():
    assert check_executions(native(), counted(8, compiles=(1, 2, 3, 4, 5, 5, 5, 5)), Limits()) == []


def test_a_run_that_failed():
    failed = counted(8, failure=Failure("ValueError", "no"))
    assert check_executions(native(), failed, Limits()) == ["the run failed: ValueError: no"]


def test_a_run_without_samples():
    assert check_executions(native(), Trace("xla", "count"), Limits()) != []
