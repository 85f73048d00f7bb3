"""How far two runs are apart, loss by loss and parameter by parameter: the series that reports show.

The differences are those of ``compare``, by the same scales and bounds, but all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from xla_migrate.verify.compare import LATE, SMALL, TINY, WEIGHT, Bounds, noise_in
from xla_migrate.verify.judge import bounds_of
from xla_migrate.verify.trace import Array, Step, Trace, name_of
from xla_migrate.verify.verdict import Verdict

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """Relative differences and their bounds; ``at`` are numbers of losses or of steps, from 1."""

    at: list[int] = field(default_factory=list)
    differences: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)

    @property
    def first_beyond(self) -> int | None:
        """The number of the first entry that exceeds its bound."""
        entries = zip(self.at, self.differences, self.bounds, strict=True)
        return next((number for number, size, bound in entries if not size <= bound), None)

    @property
    def worst(self) -> float | None:
        """The largest difference; nothing is worse than one that is not a number."""
        return max(self.differences, key=_size, default=None)


@dataclass(frozen=True)
class Drift:
    """How far one parameter is from the native one: after each step of its optimizer, and at the end
    (None where the shapes differ, or where either run did not keep it). ``compared`` is False where
    the difference means nothing: its gradient is rounding, or it was to be ignored."""

    name: str
    elements: int
    compared: bool
    final: float | None
    bound: float
    by_step: Curve

    @property
    def exceeds(self) -> bool:
        """Whether the final parameter is beyond its bound."""
        return self.compared and self.final is not None and not self.final <= self.bound


def _size(difference: float) -> float:
    return math.inf if math.isnan(difference) else difference


def bounds_in(verdict: Verdict) -> Bounds:
    """The bounds that a verdict rests on."""
    return verdict.bounds or bounds_of(verdict.native, verdict.migrated)


def loss_differences(verdict: Verdict) -> Curve:
    """One entry for each loss that both runs computed as a number."""
    native, migrated = verdict.native.losses, verdict.migrated.losses
    sizes = [abs(loss) for loss in native if loss is not None and math.isfinite(loss)]
    floor, bounds, curve = SMALL * max(sizes, default=0.0), bounds_in(verdict), Curve()
    for number, (one, other) in enumerate(zip(native, migrated, strict=False), 1):
        if one is None or other is None:
            continue
        scale = max(abs(one), floor, TINY)
        curve.at.append(number)
        curve.differences.append(0.0 if one == other else abs(one - other) / scale)
        curve.bounds.append(bounds.allowed(bounds.at(bounds.loss, number), "loss", number))
    return curve


def drifts(verdict: Verdict) -> list[Drift]:
    """All parameters that both runs hold, those that were compared first, the worst of them first."""
    with np.errstate(all="ignore"):
        found = [
            drift
            for optimizer in range(_optimizers(verdict.native))
            for drift in _of_optimizer(verdict, optimizer)
        ]
    return sorted(found, key=_badness, reverse=True)


def worst_final(found: list[Drift]) -> float | None:
    """The largest final difference of the parameters that were compared."""
    return max((d.final for d in found if d.compared and d.final is not None), key=_size, default=None)


def _optimizers(trace: Trace) -> int:
    stepped = max((step.optimizer + 1 for step in trace.steps), default=0)
    return max(stepped, len(trace.parameters))


def _badness(drift: Drift) -> tuple[bool, float]:
    sizes = [drift.final] if drift.final is not None else drift.by_step.differences[-1:]
    return drift.compared, max(map(_size, sizes), default=-1.0)


def _of_optimizer(verdict: Verdict, optimizer: int) -> Iterator[Drift]:
    native, bounds = verdict.native, bounds_in(verdict)
    skipped = verdict.ignored | noise_in(native)
    ones, others = (_final(trace, optimizer) for trace in (native, verdict.migrated))
    curves = list(_by_step(verdict, optimizer))
    floor = SMALL * max((_rms(array) for array in ones), default=0.0)
    for j in range(max(len(curves), min(len(ones), len(others)))):
        both = (ones[j], others[j]) if j < min(len(ones), len(others)) else None
        yield Drift(
            name=name_of(native, optimizer, j),
            elements=both[0].size if both else 0,
            compared=f"{optimizer}.{j}" not in skipped,
            final=_distance(*both, floor) if both else None,
            bound=bounds.allowed(bounds.at(bounds.parameters, len(native.steps)), "final parameter", LATE),
            by_step=curves[j] if j < len(curves) else Curve(),
        )


def _final(trace: Trace, optimizer: int) -> list[Array]:
    return trace.parameters[optimizer] if optimizer < len(trace.parameters) else []


def _distance(one: Array, other: Array, floor: float) -> float | None:
    if one.shape != other.shape:
        return None
    if np.array_equal(one, other):
        return 0.0
    return _rms(one.astype(np.float64) - other.astype(np.float64)) / max(_rms(one), floor, TINY)


def _rms(array: Array) -> float:
    return float(np.linalg.norm(array.astype(np.float64).ravel())) / math.sqrt(max(array.size, 1))


def _by_step(verdict: Verdict, optimizer: int) -> Iterator[Curve]:
    """A curve for each parameter of an optimizer; a step that describes fewer has no entry in the rest."""
    pairs = zip(verdict.native.steps, verdict.migrated.steps, strict=False)
    steps = [(n, *pair) for n, pair in enumerate(pairs, 1) if pair[0].optimizer == optimizer]
    if not steps:
        return
    arrays = _final(verdict.native, optimizer)
    counts = [array.size for array in arrays] or [1] * max(_described(one) for _, one, _ in steps)
    sizes = np.sqrt(np.array(counts, dtype=np.float64))
    held = np.array([min(_described(one), _described(other), len(sizes)) for _, one, other in steps])
    found = _differences([one for _, one, _ in steps], [other for _, _, other in steps], sizes)
    numbers = np.array([number for number, _, _ in steps])
    bounds = bounds_in(verdict)
    for j in range(int(held.max(initial=0))):
        rows = held > j
        at = numbers[rows].tolist()
        yield Curve(at, found[rows, j].tolist(), [_bound(bounds, verdict.native, n) for n in at])


def _bound(bounds: Bounds, native: Trace, step: int) -> float:
    bound = bounds.at(bounds.parameters, step)
    return bounds.allowed(bound, "parameter", native.steps[step - 1].backwards)


def _described(step: Step) -> int:
    return min(len(step.norms), len(step.digests))


def _differences(ones: list[Step], others: list[Step], sizes: Floats) -> Floats:
    """By step and parameter: the larger of the differences of norm and digest."""
    width = len(sizes)
    norm, other_norm = (_matrix([s.norms for s in steps], width) for steps in (ones, others))
    digest, other_digest = (_matrix([s.digests for s in steps], width) for steps in (ones, others))
    each = norm / np.maximum(sizes, 1)
    largest = np.max(np.where(np.isfinite(each), each, 0.0), axis=1, initial=0.0)
    scale = np.fmax(np.fmax(norm, SMALL * largest[:, None] * sizes), TINY)
    by_norm = np.abs(norm - other_norm) / scale
    by_digest = np.abs(digest - other_digest) / (3 * WEIGHT * scale)
    found: Floats = np.maximum(by_norm, by_digest)
    return found


def _matrix(rows: list[list[float]], width: int) -> Floats:
    filled = np.full((len(rows), width), np.nan)
    for target, row in zip(filled, rows, strict=True):
        target[: len(row)] = row[:width]
    return filled
