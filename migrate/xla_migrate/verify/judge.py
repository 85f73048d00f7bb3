"""The verdict on two runs, and on what the migrated one cost."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import zip_longest

from xla_migrate.verify.causes import explained
from xla_migrate.verify.compare import BOUNDS, FILES, Bounds, Floor, compare, floor_of
from xla_migrate.verify.executions import Limits, performance_of
from xla_migrate.verify.replica_checks import aligned, check_replicas, comparable_samples
from xla_migrate.verify.trace import Trace
from xla_migrate.verify.verdict import Comparison, Outcome, Verdict

BATCH_NORM = 0.1
"""What an evaluation may differ by in a model with a BatchNorm: torch_xla keeps the running variance
without Bessel's correction, so it is smaller by one part in the number of values of a batch."""

SENT = (
    "DistributedDataParallel sends the first rank's running statistics before every forward pass, replicas "
    "take them where they evaluate: those of the others are compared there, not at the end"
)

NUMBERS = ("loss", "gradient norm", "parameter", "final parameter", "evaluation")
WORSE = (Outcome.EQUAL, Outcome.WITHIN, Outcome.NOT_COMPARABLE, Outcome.DIVERGED)


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
        "bounds": bounds, "ignored": frozenset(ignore), "notes": notes_on(native),
    }  # fmt: skip
    reason = not_comparable(native, migrated)
    if reason:
        return Verdict(Outcome.NOT_COMPARABLE, reason, native, migrated, **given)  # type: ignore[arg-type]
    comparison = explained(compare(native, migrated, bounds, ignore), native, migrated)
    outcome, reason = _answer(comparison, replicas)
    return Verdict(outcome, reason, native, migrated, comparison, **given)  # type: ignore[arg-type]


def judge_replicas(
    native: Sequence[Trace],
    replicas: Sequence[Trace],
    *,
    bounds: Bounds | None = None,
    ignore: Collection[str] = (),
    usual: Sequence[Trace] = (),
    shaken: Sequence[Sequence[Trace]] = (),
) -> Verdict:
    """Compare replicas with native ranks, rank by rank, or with one native process that took batches
    of N times the size; and look at what must hold between replicas. ``usual`` is the native run in its own
    order, where that in ``native`` is the replicas'; ``shaken`` are native runs of as many ranks that differ
    from it in rounding alone."""
    problems = check_replicas(replicas, usual or native)
    pairs = aligned(native, replicas)
    floors = [floor_of(one, *(run[rank] for run in shaken)) for rank, one in enumerate(native) if shaken]
    verdicts = [
        judge(one, other, bounds=bounds, ignore=ignore, replicas=problems, floor=floor)
        for (one, other), floor in zip_longest(pairs, floors)
    ]
    worst = max(verdicts, key=lambda verdict: WORSE.index(verdict.outcome))
    if any(trace.takes_statistics and has_batch_norm(trace) for trace in native):
        worst = replace(worst, notes=(*worst.notes, SENT))
    if len(native) == 1 and not problems and worst.outcome is Outcome.DIVERGED:
        reason = comparable_samples(native[0], replicas)
        if reason:
            return replace(worst, outcome=Outcome.NOT_COMPARABLE, reason=reason)
    return worst


def notes_on(native: Trace) -> tuple[str, ...]:
    """What a reader of the verdict must know about the backend."""
    if not (native.evaluations and has_batch_norm(native)):
        return ()
    return (
        "the model holds a BatchNorm, whose running variance torch_xla keeps without Bessel's correction:"
        f" its evaluations may differ by {BATCH_NORM:.0%}",
    )


def may_be_chaos(verdict: Verdict) -> bool:
    """Whether two runs part in numbers, as those of a chaotic program do that rounds otherwise.

    Missing files do not speak against it: where the numbers agree after all they are what is told first.
    """
    comparison = verdict.comparison
    if comparison is None or comparison.first is None:
        return False
    found = [comparison.first, *(one for one in comparison.others if one.kind != FILES)]
    return all(one.kind in NUMBERS and one.difference is not None for one in found)


def bounds_of(native: Trace, migrated: Trace) -> Bounds:
    """The bounds for the lowest precision that either run computed in."""
    bounds = BOUNDS[lowest_dtype(native, migrated)]
    if has_batch_norm(native):
        return replace(bounds, evaluation=max(bounds.evaluation, BATCH_NORM / bounds.loss))
    return bounds


def lowest_dtype(*traces: Trace) -> str:
    """The lowest precision that some run computed in."""
    return "bfloat16" if any(trace.dtype == "bfloat16" for trace in traces) else "float32"


def has_batch_norm(trace: Trace) -> bool:
    """Whether a model keeps the running variance of a BatchNorm."""
    return any(name.endswith("running_var") for module in trace.modules for name in module)


def _asks_rank(message: str) -> bool:
    """Whether a script failed for want of what a launcher tells each process that it starts."""
    return any(name in re.findall(r"\w+", message) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))


def not_comparable(native: Trace, migrated: Trace) -> str:
    """Why two traces cannot be compared, empty where they can."""
    if native.failure is not None:
        kind, message = native.failure.kind, (native.failure.message.splitlines() or [""])[0]
        hint = "; it asks which of several processes it is: give --replicas N" if _asks_rank(message) else ""
        return f"could not run natively: {kind}: {message}{hint}"
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
    if replicas or comparison.first is not None:
        found = [] if comparison.first is None else [str(comparison)]
        return Outcome.DIVERGED, "; ".join([*replicas[:1], *found])
    exact = comparison.worst_loss == 0 and comparison.worst_parameters == 0
    return (Outcome.EQUAL if exact else Outcome.WITHIN), str(comparison)
