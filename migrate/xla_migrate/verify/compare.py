"""Whether two recorded runs trained to the same numbers, and where they part."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from xla_migrate.verify.trace import Array, Trace

SMALL = 1e-2
"""A number this much smaller than its largest sibling is compared on the scale of ``SMALL`` times
that sibling: a loss near zero, or a bias that has hardly left zero, has no relative precision of
its own."""


@dataclass(frozen=True)
class Bounds:
    """The largest relative differences that still count as equal."""

    loss: float
    parameters: float


TINY = 1e-30

BOUNDS = {"float32": Bounds(1e-4, 1e-4), "bfloat16": Bounds(3e-2, 3e-2)}
"""By the lowest precision that a script computes in. bfloat16 has 8 bits: the last one is worth 0.4
%, and autocast of the CPU and of XLA choose it for different operators."""


@dataclass(frozen=True)
class Divergence:
    """Something in which two runs may differ.

    ``kind`` is ``failure``, ``steps``, ``loss`` or ``parameters``; ``where`` names the step or the
    parameter; ``difference`` and ``bound`` are relative, where there is a number to compare.
    """

    kind: str
    where: str
    native: object
    migrated: object
    difference: float | None = None
    bound: float | None = None

    @property
    def exceeds(self) -> bool:
        """Whether this is a real divergence: no number to compare, or a difference beyond its bound
        (or not a number)."""
        return self.difference is None or self.bound is None or not self.difference <= self.bound

    def __str__(self) -> str:
        text = f"{self.kind}, {self.where}: native {self.native}, migrated {self.migrated}"
        if self.difference is not None:
            text += f" (relative difference {self.difference:.2g}, bound {self.bound:g})"
        return text


@dataclass(frozen=True)
class Comparison:
    """The outcome: ``first`` is None where the runs agree. The worst differences are relative, over
    all that was compared."""

    first: Divergence | None
    worst_loss: float = 0.0
    worst_parameters: float = 0.0
    losses: int = 0

    @property
    def agree(self) -> bool:
        """Whether nothing differs beyond its bound."""
        return self.first is None

    def __str__(self) -> str:
        if self.first is not None:
            return f"first divergence: {self.first}"
        return (
            f"{self.losses} losses agree within {self.worst_loss:.1g}, "
            f"final parameters within {self.worst_parameters:.1g}"
        )


def compare(
    native: Trace, migrated: Trace, bounds: Bounds, ignore: Collection[str] = ()
) -> Comparison:
    """Compare two ``values`` traces in the order of time: each loss, the number of steps, each
    final parameter.

    A run that failed is the first divergence, whatever it did before. ``ignore`` names parameters
    whose gradient is zero but for rounding, as ``optimizer.position`` (``"0.3"``): a bias before a
    normalisation, for one, which Adam turns into noise of full size.
    """
    losses = list(_losses(native.losses, migrated.losses, bounds.loss))
    parameters = list(_parameters(native, migrated, bounds.parameters, ignore))
    found = [*_failures(native, migrated), *losses, *_counts(native, migrated), *parameters]
    first = next((divergence for divergence in found if divergence.exceeds), None)
    return Comparison(first, _worst(losses), _worst(parameters), len(losses))


def _worst(found: Sequence[Divergence]) -> float:
    return max((d.difference for d in found if d.difference is not None), default=0.0)


def _failures(native: Trace, migrated: Trace) -> Iterator[Divergence]:
    if native.failure or migrated.failure:
        yield Divergence("failure", "the run", native.failure, migrated.failure)


def _counts(native: Trace, migrated: Trace) -> Iterator[Divergence]:
    counts = {
        "losses given to backward": (len(native.losses), len(migrated.losses)),
        "optimizer steps": (len(native.steps), len(migrated.steps)),
        "optimizers": (len(native.parameters), len(migrated.parameters)),
    }
    for what, (one, other) in counts.items():
        if one != other:
            yield Divergence("steps", what, one, other)


def _losses(
    native: Sequence[float | None], migrated: Sequence[float | None], bound: float
) -> Iterator[Divergence]:
    sizes = [abs(loss) for loss in native if loss is not None and np.isfinite(loss)]
    floor = SMALL * max(sizes, default=0.0)
    for number, (one, other) in enumerate(zip(native, migrated, strict=False), 1):
        where = f"backward {number} of {len(native)}"
        if one is None and other is None:
            continue
        if one is None or other is None:
            yield Divergence("loss", where, one, other)
        else:
            scale = max(abs(one), floor, TINY)
            yield Divergence("loss", where, one, other, abs(one - other) / scale, bound)


def _parameters(
    native: Trace, migrated: Trace, bound: float, ignore: Collection[str]
) -> Iterator[Divergence]:
    for i, (ones, others) in enumerate(zip(native.parameters, migrated.parameters, strict=False)):
        if len(ones) != len(others):
            where = f"optimizer {i}, number of parameters"
            yield Divergence("parameters", where, len(ones), len(others))
        floor = SMALL * max((_rms(one) for one in ones), default=0.0)
        for j, (one, other) in enumerate(zip(ones, others, strict=False)):
            if f"{i}.{j}" not in ignore:
                yield _parameter(f"optimizer {i}, parameter {j}", one, other, floor, bound)


def _parameter(where: str, one: Array, other: Array, floor: float, bound: float) -> Divergence:
    if one.shape != other.shape:
        return Divergence("parameters", where, one.shape, other.shape)
    scale = max(_rms(one), floor, TINY)
    difference = _rms(one.astype(np.float64) - other.astype(np.float64)) / scale
    norms = (f"norm {_norm(one):.6g}", f"norm {_norm(other):.6g}")
    return Divergence("parameters", where, *norms, difference, bound)


def _norm(array: Array) -> float:
    return float(np.linalg.norm(array.astype(np.float64).ravel()))


def _rms(array: Array) -> float:
    return _norm(array) / math.sqrt(max(array.size, 1))
