"""What a divergence means: the mistakes in migrated scripts that leave such a mark."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from xla_migrate.verify.trace import Batch, Step, Trace
from xla_migrate.verify.verdict import Comparison, Divergence

Cause = Callable[[Divergence, Trace, Trace], str]

ALIKE = 1e-3
"""How near a ratio must be to a whole number to be taken for one."""


def explained(comparison: Comparison, native: Trace, migrated: Trace) -> Comparison:
    """The comparison with a cause for each divergence that has a known one."""

    def explain(divergence: Divergence) -> Divergence:
        cause = CAUSES.get(divergence.kind)
        return replace(divergence, cause=cause(divergence, native, migrated)) if cause else divergence

    first = comparison.first and explain(comparison.first)
    return replace(comparison, first=first, others=tuple(map(explain, comparison.others)))


def _steps(divergence: Divergence, native: Trace, migrated: Trace) -> str:
    doubled = _repeated(migrated.steps) - _repeated(native.steps)
    if doubled:
        return f"the optimizer steps twice after loss {min(doubled)}: one of the two steps is too many"
    reached = {(s.optimizer, s.backwards) for s in migrated.steps}
    for step in native.steps:
        if (step.optimizer, step.backwards) not in reached:
            return f"the step of optimizer {step.optimizer} after loss {step.backwards} is missing"
    return "the migrated script takes steps that the native one does not"


def _repeated(steps: list[Step]) -> set[int]:
    return {
        one.backwards
        for one, other in pairwise(steps)
        if (one.optimizer, one.backwards) == (other.optimizer, other.backwards)
    }


def _no_gradient(divergence: Divergence, native: Trace, migrated: Trace) -> str:
    if any(not name for group in migrated.names for name in group):
        return (
            "the optimizer holds parameters that are no longer the model's: it was built before the"
            " model was moved to the device"
        )
    return "the loss no longer depends on these parameters"


def _order(divergence: Divergence, native: Trace, migrated: Trace) -> str:
    later = str(divergence.migrated).split(" → ")
    after = later[later.index("clip") :] if "clip" in later else []
    if "unscale" in after:
        return "gradients are clipped while they are still scaled: unscale them first"
    return "gradients are clipped before they are reduced over the replicas: reduce them first"


def _learning_rate(divergence: Divergence, native: Trace, migrated: Trace) -> str:
    one, other = divergence.native, divergence.migrated
    if isinstance(one, float) and isinstance(other, float) and one:
        return f"the migrated script steps with {other / one:.4g} times the learning rate"
    return "the optimizers have other parameter groups"


def _gradient_norm(divergence: Divergence, native: Trace, migrated: Trace) -> str:
    times = _times(divergence)
    if times:
        return (
            f"the gradients are {times}: an unscaling, a reduction, or a division by the number of"
            " micro-batches or replicas is missing, comes too late, or is done twice"
        )
    return _noise(divergence, native, migrated)


def _times(divergence: Divergence) -> str:
    """``8 times larger`` where one value is a whole multiple of the other."""
    one, other = divergence.native, divergence.migrated
    if not isinstance(one, float) or not isinstance(other, float) or not one or not other:
        return ""
    for factor, word in ((other / one, "larger"), (one / other, "smaller")):
        if math.isfinite(factor) and round(factor) > 1 and abs(factor / round(factor) - 1) < ALIKE:
            return f"{round(factor)} times {word}"
    return ""


def _noise(divergence: Divergence, native: Trace, migrated: Trace) -> str:
    for number, (one, other) in enumerate(zip(native.steps, migrated.steps, strict=False), 1):
        if one.draws != other.draws:
            return (
                f"by step {number} the native run had drawn {one.draws} random tensors and the migrated"
                f" one {other.draws}: dropout or another random operator differs"
            )
    return ""


def _tied(divergence: Divergence, native: Trace, migrated: Trace) -> str:
    return "moving a model to an XLA device unties its weights: tie them again after the move"


def _batch(divergence: Divergence, native: Trace, migrated: Trace) -> str:
    if _repeating(migrated) - _repeating(native):
        return (
            "each pass over the data has the same order: the sampler's set_epoch is not called, or the"
            " loader no longer shuffles"
        )
    ones, others = _samples(native), _samples(migrated)
    if ones and sorted(ones) == sorted(others):
        return "the samples are the same and their order is not: another sampler, or another seed"
    return "other samples are loaded: another dataset, sampler or batch size"


def _repeating(trace: Trace) -> set[int]:
    """The loaders that give the same samples in the same order in their first two passes."""
    passes: dict[tuple[int, int], list[object]] = {}
    for batch in trace.loaded:
        passes.setdefault((batch.loader, batch.epoch), []).append(batch.samples or batch.digest)
    seconds = ((loader, found) for (loader, number), found in passes.items() if number == 1)
    return {loader for loader, found in seconds if passes.get((loader, 0)) == found}


def _samples(trace: Trace) -> list[int]:
    return [sample for batch in trace.loaded for sample in batch.samples or ()]


def _number_of_batches(divergence: Divergence, native: Trace, migrated: Trace) -> str:
    one, other = divergence.native, divergence.migrated
    if isinstance(one, int) and isinstance(other, int) and other == one - 1:
        last = [b for b in native.loaded if f"pass {b.epoch + 1} of loader {b.loader}" == divergence.where]
        if last and _smaller(last):
            return "the last batch, which is smaller than the others, is dropped"
        return "the last batch is missing"
    return "the loop ends earlier or later than natively"


def _smaller(batches: list[Batch]) -> bool:
    sizes = [len(batch.samples or ()) for batch in batches]
    return len(sizes) > 1 and sizes[-1] < sizes[0]


def _loss(divergence: Divergence, native: Trace, migrated: Trace) -> str:
    if times := _times(divergence):
        return f"the loss is {times}: it is still scaled, or divided by another number"
    return _noise(divergence, native, migrated)


def _evaluation(divergence: Divergence, native: Trace, migrated: Trace) -> str:
    if any(name.endswith("running_var") for module in native.modules for name in module):
        return (
            "the model holds a BatchNorm, and torch_xla keeps its running variance without Bessel's"
            " correction: evaluations differ by about one part in the size of a batch"
        )
    return ""


CAUSES: dict[str, Cause] = {
    "optimizer steps": _steps,
    "gradient": _no_gradient,
    "order": _order,
    "learning rate": _learning_rate,
    "gradient norm": _gradient_norm,
    "tied weights": _tied,
    "number of parameters": _tied,
    "batch": _batch,
    "number of batches": _number_of_batches,
    "loss": _loss,
    "evaluation": _evaluation,
}
