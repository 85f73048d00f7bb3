"""Whether two recorded runs trained to the same numbers, and where they part first.

Each quantity is a function that gives what it compared, in the order of time; what comes first and
exceeds its bound is the first divergence. ``causes`` says what such a difference means.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from xla_migrate.verify.trace import Array, Batch, Step, Trace, name_of, norm
from xla_migrate.verify.verdict import Comparison, Divergence

SMALL = 1e-2
"""A number this much smaller than its largest sibling is compared on the scale of ``SMALL`` times
that sibling: a loss near zero, or a bias that has hardly left zero, has no relative precision of
its own."""

NOISE = 1e-5
"""A gradient this much smaller than those of the other parameters is rounding: that of a bias before
a normalisation, for one, which Adam turns into steps of full size."""

TINY = 1e-30
GROWTH = 100
"""Bounds hold for so many steps and grow in proportion afterwards, as rounding errors add up."""

FILES = "files written by one side alone"
CHAOS = 3
"""Two runs may be so many times as far apart as rounding alone would carry them."""

WEIGHT = 3.2
"""The root mean square of the weights of a digest."""


_TIME = re.compile(
    r"20\d\d[-_.]?[01]\d[-_.]?[0-3]\d|\d\d[-_.:]\d\d[-_.:]\d\d|1[6-9]\d{8}"
    r"|(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*[-_.]?\d\d"
)
"""A date, a time of day or a time in seconds since 1970 in the name of a file."""


@dataclass(frozen=True)
class Bounds:
    """The largest relative differences that still count as equal, for the first ``GROWTH`` steps.

    A gradient norm may differ ``gradient`` times as much as a loss, what a module returns in an evaluation
    ``evaluation`` times as much; the digest of a parameter three
    times as much as its norm, since errors of all elements may add up in it.
    """

    loss: float
    parameters: float
    gradient: float = 10.0
    floor: Floor | None = None
    evaluation: float = 10.0

    def at(self, bound: float, step: int) -> float:
        """A bound after so many steps."""
        return bound * max(1.0, step / GROWTH)

    def allowed(self, bound: float, kind: str, backwards: int) -> float:
        """The bound, or several times what rounding alone did to this quantity by then, if that is more."""
        return bound if self.floor is None else max(bound, CHAOS * self.floor.at(kind, backwards))


@dataclass(frozen=True)
class Floor:
    """How far two native runs are apart that differ in nothing but rounding: for each quantity the
    largest relative difference so far, by the number of losses before it."""

    curves: Mapping[str, Sequence[tuple[int, float]]]

    def at(self, kind: str, backwards: int) -> float:
        """The largest difference of a quantity up to a place."""
        curve = self.curves.get(kind, ())
        known = bisect_right(curve, (backwards, math.inf))
        return curve[known - 1][1] if known else 0.0

    @property
    def worst(self) -> float:
        """The largest difference of the losses and the final parameters."""
        ends = [curve[-1][1] for kind in ("loss", "final parameter") if (curve := self.curves.get(kind))]
        return max(ends, default=0.0)


BOUNDS = {"float32": Bounds(1e-4, 1e-4), "bfloat16": Bounds(3e-2, 3e-2)}
"""By the lowest precision that a script computes in. bfloat16 has 8 bits: the last one is worth 0.4
%, and autocast of the CPU and of XLA choose it for different operators."""


@dataclass(frozen=True)
class Place:
    """When something happened: after so many losses, and in which order within one iteration."""

    backwards: int
    rank: int


Found = tuple[Place, Divergence]
BATCH, LOSS, ORDER, RATE, GRADIENT, REACHED, PARAMETER, EVALUATION, END = range(9)
LATE = 2**31


@dataclass(frozen=True)
class Pair:
    """Two runs and what is to be made of their differences."""

    native: Trace
    migrated: Trace
    bounds: Bounds
    ignore: frozenset[str]

    @property
    def steps(self) -> list[tuple[int, Step, Step]]:
        """The optimizer steps that both took, numbered from 1."""
        pairs = zip(self.native.steps, self.migrated.steps, strict=False)
        return [(number, one, other) for number, (one, other) in enumerate(pairs, 1)]

    def ignored(self, optimizer: int, position: int) -> bool:
        return f"{optimizer}.{position}" in self.ignore


def compare(native: Trace, migrated: Trace, bounds: Bounds, ignore: Collection[str] = ()) -> Comparison:
    """Compare two ``values`` traces in the order of time.

    A run that failed is the first divergence, whatever it did before. ``ignore`` names parameters
    that are not compared, as ``optimizer.position`` (``"0.3"``); those whose gradient is nothing
    but rounding are left out anyway.
    """
    pair = Pair(native, migrated, bounds, frozenset(ignore) | noise_in(native))
    found = _all(pair)
    exceeding = sorted((one for one in found if one[1].exceeds), key=lambda one: _order(one[0]))
    firsts: dict[str, Divergence] = {}
    for _, divergence in [*_failures(pair), *exceeding]:
        firsts.setdefault(divergence.kind, divergence)
    first, *others = firsts.values() or [None]
    return Comparison(
        first, tuple(one for one in others if one is not None),
        _worst(found, "loss"), _worst(found, "final parameter"), sum(d.kind == "loss" for _, d in found),
    )  # fmt: skip


def floor_of(native: Trace, *perturbed: Trace) -> Floor:
    """The floor between a native run and some whose initial parameters were changed in their last digit.

    A quantity that is one number may come out the same by chance; several runs tell how far it goes.
    """
    found: list[Found] = []
    for trace in perturbed:
        found += _all(Pair(native, trace, Bounds(0.0, 0.0), noise_in(native)))
    curves: dict[str, list[tuple[int, float]]] = {}
    for place, divergence in sorted(found, key=lambda one: _order(one[0])):
        if divergence.difference is not None and math.isfinite(divergence.difference):
            curve = curves.setdefault(divergence.kind, [])
            curve.append((place.backwards, max(divergence.difference, curve[-1][1] if curve else 0.0)))
    return Floor(curves)


def _all(pair: Pair) -> list[Found]:
    found = [one for quantity in QUANTITIES for one in quantity(pair)]
    return [(place, _allowed(pair.bounds, place, divergence)) for place, divergence in found]


def _allowed(bounds: Bounds, place: Place, divergence: Divergence) -> Divergence:
    if bounds.floor is None or divergence.bound is None:
        return divergence
    return replace(divergence, bound=bounds.allowed(divergence.bound, divergence.kind, place.backwards))


def _order(place: Place) -> tuple[int, int]:
    return place.backwards, place.rank


def _worst(found: Sequence[Found], kind: str) -> float:
    differences = [d.difference for _, d in found if d.kind == kind and d.difference is not None]
    return math.nan if any(map(math.isnan, differences)) else max(differences, default=0.0)


def noise_in(native: Trace) -> frozenset[str]:
    """Parameters whose gradient is rounding in every step of the native run."""
    largest: dict[tuple[int, int], float] = {}
    for step in native.steps:
        sizes = [g / max(n, 1) ** 0.5 for g, n in zip(step.gradients, _sizes(native, step), strict=False)]
        top = max(sizes, default=0.0)
        for j, size in enumerate(sizes):
            share = size / top if top else 0.0
            key = (step.optimizer, j)
            largest[key] = max(largest.get(key, 0.0), share)
    return frozenset(f"{i}.{j}" for (i, j), share in largest.items() if 0 < share < NOISE)


def _sizes(trace: Trace, step: Step) -> list[int]:
    if not 0 <= step.optimizer < len(trace.parameters):
        return [1] * len(step.gradients)
    return [array.size for array in trace.parameters[step.optimizer]]


def _failures(pair: Pair) -> Iterator[Found]:
    one, other = pair.native.failure, pair.migrated.failure
    if one or other:
        yield Place(0, 0), Divergence("failure", "the run", one, other)


def _losses(pair: Pair) -> Iterator[Found]:
    native, migrated = pair.native.losses, pair.migrated.losses
    sizes = [abs(loss) for loss in native if loss is not None and np.isfinite(loss)]
    floor = SMALL * max(sizes, default=0.0)
    for number, (one, other) in enumerate(zip(native, migrated, strict=False), 1):
        place, where = Place(number, LOSS), f"backward {number} of {len(native)}"
        if one is None and other is None:
            continue
        if one is None or other is None:
            yield place, Divergence("loss", where, one, other)
        else:
            difference = _relative(one, other, floor)
            bound = pair.bounds.at(pair.bounds.loss, number)
            yield place, Divergence("loss", where, one, other, difference, bound)


def _relative(one: float, other: float, floor: float) -> float:
    if one == other:
        return 0.0
    return abs(one - other) / max(abs(one), floor, TINY)


def _step_where(pair: Pair, number: int) -> str:
    return f"step {number} of {len(pair.native.steps)}"


def _step_sequence(pair: Pair) -> Iterator[Found]:
    """The steps themselves: by which optimizer, after how many losses."""
    ones = [(step.optimizer, step.backwards) for step in pair.native.steps]
    others = [(step.optimizer, step.backwards) for step in pair.migrated.steps]
    for number, (one, other) in enumerate(zip_longest(ones, others), 1):
        if one == other:
            continue
        place = Place(min(key[1] for key in (one, other) if key is not None), ORDER)
        counts = f"{len(ones)} steps", f"{len(others)} steps"
        yield place, Divergence("optimizer steps", f"at step {number}", *counts)
        return


def _step_order(pair: Pair) -> Iterator[Found]:
    """Clipping belongs behind unscaling and, over several replicas, behind the reduction."""
    for number, one, other in pair.steps:
        native, migrated = (_after_clip(step, trace.world) for step, trace in (
            (one, pair.native), (other, pair.migrated)))  # fmt: skip
        if migrated - native:
            orders = " → ".join(one.order), " → ".join(other.order)
            where = _step_where(pair, number)
            yield Place(one.backwards, ORDER), Divergence("order", where, *orders)
            return


def _after_clip(step: Step, world: int) -> set[str]:
    kinds = {"unscale", "reduce"} if world > 1 else {"unscale"}
    return kinds & step.behind_clip()


def _counts(pair: Pair) -> Iterator[Found]:
    native, migrated = pair.native, pair.migrated
    counts = {
        "losses given to backward": (len(native.losses), len(migrated.losses)),
        "optimizers": (len(native.parameters), len(migrated.parameters)),
    }
    for what, (one, other) in counts.items():
        if one != other:
            place = Place(min(len(native.losses), len(migrated.losses)) + 1, ORDER)
            yield place, Divergence(what, "in the whole run", one, other)


def _learning_rates(pair: Pair) -> Iterator[Found]:
    for number, one, other in pair.steps:
        where = _step_where(pair, number)
        for i, (rate, found) in enumerate(zip_longest(one.learning_rates, other.learning_rates)):
            name = f"parameter group {i} of optimizer {one.optimizer}"
            place = Place(one.backwards, RATE)
            if rate is None or found is None:
                yield place, Divergence("learning rate", where, rate, found, name=name)
            else:
                difference = _relative(rate, found, 0.0)
                yield place, Divergence("learning rate", where, rate, found, difference, 1e-6, name)


def _gradients(pair: Pair) -> Iterator[Found]:
    sizes = [step.gradient_norm for step in pair.native.steps if step.gradient_norm is not None]
    floor = SMALL * max((size for size in sizes if np.isfinite(size)), default=0.0)
    for number, one, other in pair.steps:
        place, where = Place(one.backwards, GRADIENT), _step_where(pair, number)
        ours = one.gradient_norm, other.gradient_norm
        if ours[0] is not None and ours[1] is not None:
            bound = pair.bounds.at(pair.bounds.loss * pair.bounds.gradient, number)
            difference = _relative(*ours, floor)  # type: ignore[arg-type]
            yield place, Divergence("gradient norm", where, *ours, difference, bound)


def _unreached(pair: Pair) -> Iterator[Found]:
    """Parameters that had a gradient natively and have none after the migration."""
    for number, one, other in pair.steps:
        lost = sorted(set(other.unreached) - set(one.unreached))
        if lost and one.gradient_norm is not None:
            name = name_of(pair.native, one.optimizer, lost[0])
            count = f"none for {len(lost)} of {len(one.norms)} parameters"
            where = _step_where(pair, number)
            place = Place(one.backwards, REACHED - 3)
            yield place, Divergence("gradient", where, "one for each", count, name=name)
            return


def _parameters_by_step(pair: Pair) -> Iterator[Found]:
    for number, one, other in pair.steps:
        place, where = Place(one.backwards, PARAMETER), _step_where(pair, number)
        sizes = _sizes(pair.native, one)
        by_element = (n / max(s, 1) ** 0.5 for n, s in zip(one.norms, sizes, strict=False))
        floor = SMALL * max(by_element, default=0.0)
        bound = pair.bounds.at(pair.bounds.parameters, number)
        for j, size in enumerate(sizes[: min(len(one.norms), len(other.norms))]):
            if pair.ignored(one.optimizer, j):
                continue
            scale = max(one.norms[j], floor * size**0.5, TINY)
            by_norm = abs(one.norms[j] - other.norms[j]) / scale
            by_digest = abs(one.digests[j] - other.digests[j]) / (3 * WEIGHT * scale)
            values = f"norm {one.norms[j]:.6g}", f"norm {other.norms[j]:.6g}"
            name, difference = name_of(pair.native, one.optimizer, j), max(by_norm, by_digest)
            yield place, Divergence("parameter", where, *values, difference, bound, name)


def _final_parameters(pair: Pair) -> Iterator[Found]:
    last = Place(LATE, PARAMETER)
    for i, (ones, others) in enumerate(zip(pair.native.parameters, pair.migrated.parameters, strict=False)):
        if len(ones) != len(others):
            name = f"optimizer {i}"
            yield Place(0, ORDER), Divergence("number of parameters", "at the end", len(ones), len(others),
                                               name=name)  # fmt: skip
            continue
        floor = SMALL * max((_rms(one) for one in ones), default=0.0)
        for j, (one, other) in enumerate(zip(ones, others, strict=True)):
            if not pair.ignored(i, j):
                yield last, _final(pair, name_of(pair.native, i, j), one, other, floor)


def _final(pair: Pair, name: str, one: Array, other: Array, floor: float) -> Divergence:
    kind, where = "final parameter", "at the end"
    if one.shape != other.shape:
        return Divergence(kind, where, one.shape, other.shape, name=name)
    bound = pair.bounds.at(pair.bounds.parameters, len(pair.native.steps))
    ones, others = one.astype(np.float64), other.astype(np.float64)
    apart = np.subtract(ones, others, out=np.zeros(ones.shape), where=ones != others)  # masks hold infinities
    difference = norm(apart) / math.sqrt(max(apart.size, 1)) / max(_rms(one), floor, TINY)
    norms = f"norm {norm(one):.6g}", f"norm {norm(other):.6g}"
    return Divergence(kind, where, *norms, difference, bound, name)


def _buffers(pair: Pair) -> Iterator[Found]:
    """What modules hold beside the parameters of optimizers. The running variance of a BatchNorm is left
    out: torch_xla computes it otherwise, and an evaluation shows where that matters. So is the running mean
    on ranks to which a wrapper sends the first one's before every forward pass: replicas take that where
    they evaluate."""
    left = ("running_var", "running_mean") if pair.native.takes_statistics else ("running_var",)
    held = {name for names in pair.native.names for name in names}
    for ones, others in zip(pair.native.modules, pair.migrated.modules, strict=False):
        floor = SMALL * max((_rms(one) for one in ones.values()), default=0.0)
        for name, one in ones.items():
            if name in others and name not in held and not name.endswith(left):
                yield Place(LATE, PARAMETER), _final(pair, name, one, others[name], floor)


def _rms(array: Array) -> float:
    """The root of the mean square of what is finite: the infinities of a mask are no scale."""
    return norm(array[np.isfinite(array)]) / math.sqrt(max(array.size, 1))


def _ties(pair: Pair) -> Iterator[Found]:
    lost = [names for names in pair.native.tied if names not in pair.migrated.tied]
    for names in lost:
        joined = " = ".join(names)
        yield Place(0, ORDER), Divergence("tied weights", "in the model", joined, "separate", name=names[0])


def _batches(pair: Pair) -> Iterator[Found]:
    """What loaders handed out, loader by loader and pass by pass."""
    if pair.native.world != pair.migrated.world:
        return
    ones, others = (_by_pass(trace) for trace in (pair.native, pair.migrated))
    for key in sorted(set(ones) | set(others)):
        native, migrated = ones.get(key, []), others.get(key, [])
        where = f"pass {key[1] + 1} of loader {key[0]}"
        for number, (one, other) in enumerate(zip(native, migrated, strict=False), 1):
            if _content(one) != _content(other):
                place = Place(one.backwards, BATCH)
                values = _shown(one), _shown(other)
                yield place, Divergence("batch", f"batch {number} in {where}", *values)
                break
        else:
            if len(native) != len(migrated):
                longer = max(native, migrated, key=len)
                place = Place(longer[min(len(native), len(migrated))].backwards, BATCH)
                yield place, Divergence("number of batches", where, len(native), len(migrated))


def _by_pass(trace: Trace) -> dict[tuple[int, int], list[Batch]]:
    found: dict[tuple[int, int], list[Batch]] = {}
    for batch in trace.loaded:
        found.setdefault((batch.loader, batch.epoch), []).append(batch)
    return found


def _content(batch: Batch) -> tuple[object, object]:
    digest = None if batch.digest is None else round(batch.digest, 2)
    return batch.samples, "nan" if digest != digest else digest


def _shown(batch: Batch) -> str:
    if batch.samples is None:
        return f"digest {batch.digest}"
    shown = ", ".join(map(str, batch.samples[:6]))
    return f"samples {shown}{', ...' if len(batch.samples) > 6 else ''}"


def _evaluations(pair: Pair) -> Iterator[Found]:
    ones, others = pair.native.evaluations, pair.migrated.evaluations
    floor = SMALL * max((one.value for one in ones if np.isfinite(one.value)), default=0.0)
    for number, (one, other) in enumerate(zip(ones, others, strict=False), 1):
        where = f"evaluation {number} of {len(ones)}, after step {one.steps}"
        place = Place(_backwards_after(pair.native, one.steps), EVALUATION)
        bound = pair.bounds.at(pair.bounds.evaluation * pair.bounds.loss, one.steps)
        difference = _relative(one.value, other.value, floor)
        values = one.value, other.value
        yield place, Divergence("evaluation", where, *values, difference, bound, one.module)
    if len(ones) != len(others):
        where = "in the whole run"
        yield Place(LATE, EVALUATION), Divergence("number of evaluations", where, len(ones), len(others))


def _backwards_after(trace: Trace, steps: int) -> int:
    return trace.steps[min(steps, len(trace.steps)) - 1].backwards if trace.steps and steps else 0


def _files(pair: Pair) -> Iterator[Found]:
    missing = _unmatched(pair.native.files, pair.migrated.files)
    added = _unmatched(pair.migrated.files, pair.native.files)
    if missing or added:
        values = ", ".join(missing) or "none", ", ".join(added) or "none"
        yield Place(LATE, END), Divergence(FILES, "at the end", *values)


def _unmatched(names: Iterable[str], others: Iterable[str]) -> list[str]:
    """The files that the other side did not write. Names that hold a time hold another one there."""
    known = {_timeless(name) for name in others}
    return sorted(name for name in names if _timeless(name) not in known)


def _timeless(name: str) -> str:
    """A file's name; without its numbers where it tells when it was written, as those of TensorBoard's
    events do (``Dec02_10-15-59``, seconds since 1970)."""
    return re.sub(r"\d+", "#", name) if _TIME.search(name) else name


Quantity = Callable[[Pair], Iterator[Found]]
QUANTITIES: tuple[Quantity, ...] = (
    _ties, _losses, _step_sequence, _step_order, _counts, _learning_rates, _gradients, _unreached,
    _parameters_by_step, _final_parameters, _buffers, _batches, _evaluations, _files,
)  # fmt: skip
