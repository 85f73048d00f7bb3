"""The series that reports show are the differences that the comparison judges."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import verdicts

from xla_migrate.verify.compare import QUANTITIES, Pair
from xla_migrate.verify.drift import Curve, bounds_in, drifts, loss_differences, worst_final
from xla_migrate.verify.judge import judge


def judged(verdict, kind: str):
    """What the comparison found of one kind: name, difference, bound."""
    pair = Pair(verdict.native, verdict.migrated, bounds_in(verdict), verdict.ignored)
    return [
        (found.name, found.difference, found.bound)
        for quantity in QUANTITIES
        for _, found in quantity(pair)
        if found.kind == kind
    ]


@pytest.mark.parametrize("name", ["equal", "within", "diverged", "one_step"])
def test_losses_differ_as_the_comparison_says(name: str) -> None:
    verdict = verdicts.ALL[name]()
    curve = loss_differences(verdict)
    found = zip(curve.differences, curve.bounds, strict=True)
    assert [("", *pair) for pair in found] == judged(verdict, "loss")


@pytest.mark.parametrize("name", ["equal", "within", "diverged", "one_step"])
def test_parameters_differ_as_the_comparison_says_after_each_step(name: str) -> None:
    verdict = verdicts.ALL[name]()
    expected: dict[str, list[tuple[float, float]]] = {}
    for parameter, difference, bound in judged(verdict, "parameter"):
        expected.setdefault(parameter, []).append((difference, bound))
    found = drifts(verdict)
    assert len(found) == len(verdicts.NAMES)
    for drift in found:
        pairs = list(zip(drift.by_step.differences, drift.by_step.bounds, strict=True))
        assert pairs == [pytest.approx(pair) for pair in expected[drift.name]]


@pytest.mark.parametrize("name", ["equal", "within", "diverged", "one_step"])
def test_final_parameters_differ_as_the_comparison_says(name: str) -> None:
    verdict = verdicts.ALL[name]()
    expected = {parameter: pair for parameter, *pair in judged(verdict, "final parameter")}
    assert {d.name: [d.final, d.bound] for d in drifts(verdict)} == expected
    assert verdict.comparison
    assert worst_final(drifts(verdict)) == verdict.comparison.worst_parameters


def test_the_bounds_are_those_that_the_verdict_used() -> None:
    verdict = verdicts.within()
    assert verdict.floor == 4e-7
    rough = dataclasses.replace(verdict, bounds=None, floor=None)
    assert bounds_in(rough).loss == 1e-4
    shaky = judge(verdict.native, verdict.migrated, floor=verdicts.shaking(1e-2))
    assert loss_differences(shaky).bounds[0] == pytest.approx(3e-2)


def test_parameters_come_worst_first_and_those_not_compared_last() -> None:
    losses = verdicts.falling(5)
    native, migrated = verdicts.run("native", losses), verdicts.run("xla", losses, 3e-2)
    found = drifts(judge(native, migrated, ignore=["0.0"]))
    assert [drift.name for drift in found] == [*verdicts.NAMES[1:], verdicts.NAMES[0]]
    assert not found[-1].compared
    assert not found[-1].exceeds
    assert found[0].exceeds


def test_a_difference_that_is_no_number_is_the_worst() -> None:
    verdict = verdicts.broken()
    worst = loss_differences(verdict).worst
    assert worst is not None
    assert math.isnan(worst)
    assert Curve([1, 2], [math.nan, 9.0], [1.0, 1.0]).first_beyond == 1
    assert Curve().worst is None


def test_other_shapes_have_no_difference() -> None:
    native = verdicts.run("native", [1.0], names=["w"])
    migrated = dataclasses.replace(native, parameters=[[np.zeros(3)]])
    (drift,) = drifts(judge(native, migrated))
    assert drift.final is None
    assert not drift.exceeds


@pytest.mark.parametrize("name", ["blank", "failed", "failed_migrated", "one_sided"])
def test_runs_without_steps_on_a_side_have_no_series(name: str) -> None:
    verdict = verdicts.ALL[name]()
    assert loss_differences(verdict) == Curve()
    assert all(drift.by_step == Curve() for drift in drifts(verdict))
