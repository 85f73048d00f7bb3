"""The verdict on two runs, and on what the migrated one cost."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from xla_migrate.verify.causes import explained
from xla_migrate.verify.compare import BOUNDS, Bounds, Floor, compare
from xla_migrate.verify.executions import Limits, performance_of
from xla_migrate.verify.trace import Trace
from xla_migrate.verify.verdict import Comparison, Outcome, Verdict


def judge(
    native: Trace,
    migrated: Trace,
    counted: Trace | None = None,
    *,
    bounds: Bounds | None = None,
    ignore: Collection[str] = (),
    limits: Limits | None = None,
    floor: Floor | None = None,
    replicas: tuple[str, ...] = (),
) -> Verdict:
    """Compare two ``values`` traces and, where there is one, look at a ``count`` trace.

    ``bounds`` are those of the lower precision of the two runs by default. ``floor`` is what
    :func:`floor_of` found between two native runs; no difference counts that is a few times of it.
    """
    performance = performance_of(native, counted, limits or Limits()) if counted is not None else None
    bounds = bounds or bounds_of(native, migrated)
    if floor is not None:
        bounds = replace(bounds, floor=floor)
    given = {
        "counted": counted, "performance": performance, "replicas": replicas,
        "floor": None if floor is None else floor.worst,
        "bounds": bounds, "ignored": frozenset(ignore),
    }  # fmt: skip
    reason = not_comparable(native, migrated)
    if reason:
        return Verdict(Outcome.NOT_COMPARABLE, reason, native, migrated, **given)  # type: ignore[arg-type]
    comparison = explained(compare(native, migrated, bounds, ignore), native, migrated)
    outcome, reason = _answer(comparison, replicas)
    return Verdict(outcome, reason, native, migrated, comparison, **given)  # type: ignore[arg-type]


def bounds_of(native: Trace, migrated: Trace) -> Bounds:
    """The bounds for the lowest precision that either run computed in."""
    dtypes = {native.dtype, migrated.dtype}
    return BOUNDS["bfloat16" if "bfloat16" in dtypes else "float32"]


def not_comparable(native: Trace, migrated: Trace) -> str:
    """Why two traces cannot be compared, empty where they can."""
    if native.failure is not None:
        kind, message = native.failure.kind, native.failure.message.splitlines()
        return f"could not run natively: {kind}: {message[0] if message else ''}"
    if "count" in (native.mode, migrated.mode):
        return "a trace of executions holds no values: record it with --mode values"
    if not native.steps and not native.losses:
        return "no optimizer step was taken and no loss computed: there is nothing to compare"
    for what in ("argv", "seed", "rng"):
        one, other = getattr(native, what), getattr(migrated, what)
        if one != other:
            return f"the runs were recorded with another {what}: {one!r} and {other!r}"
    if native.stopped != migrated.stopped and migrated.failure is None:
        return "one run was ended after a number of steps and the other was not"
    return ""


def _answer(comparison: Comparison, replicas: tuple[str, ...]) -> tuple[Outcome, str]:
    if comparison.first is not None:
        return Outcome.DIVERGED, str(comparison)
    if replicas:
        return Outcome.DIVERGED, replicas[0]
    exact = comparison.worst_loss == 0 and comparison.worst_parameters == 0
    return (Outcome.EQUAL if exact else Outcome.WITHIN), str(comparison)
