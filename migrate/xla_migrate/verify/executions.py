"""Whether a migrated script runs one execution an iteration and stops compiling, and what costs more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xla_migrate.verify.trace import HostRead, Sample, Trace
from xla_migrate.verify.verdict import Performance


@dataclass(frozen=True)
class Limits:
    """What a script may cost.

    ``iterations`` is the number of iterations of all training and evaluation loops; None takes it
    from the native run, see :func:`iterations_of`. ``execution_slack`` executions may come on top,
    for the start and the end. ``compile_slack`` compilations may still happen in the second half of
    the optimizer steps.
    """

    iterations: int | None = None
    execution_slack: int = 3
    compile_slack: int = 0


def iterations_of(native: Trace) -> int:
    """The iterations of a native run: what its DataLoaders yielded or, without one, the steps of
    its busiest optimizer."""
    steps = Counter(step.optimizer for step in native.steps)
    return native.batches or max(steps.values(), default=0)


def rounds_of(native: Trace) -> int:
    """The rounds of a native run without a DataLoader that may each be an execution besides those of the
    iterations: the backward passes, where gradients are accumulated, and evaluations. Of a loader's batches
    each is an iteration already."""
    if native.batches:
        return 0
    optimizers = {step.optimizer for step in native.steps}
    accumulates = len(optimizers) == 1 and len(native.losses) > len(native.steps)
    return len(native.evaluations) + (len(native.losses) if accumulates else 0)


def performance_of(native: Trace, counted: Trace, limits: Limits) -> Performance:
    """What a ``count`` run cost, and what is wrong with it."""
    steps = [sample for sample in counted.samples if sample.event == "step"]
    last = counted.samples[-1] if counted.samples else None
    return Performance(
        iterations=iterations_of(native) if limits.iterations is None else limits.iterations,
        executions=last.executions if last else 0,
        executions_by_step=_growth([s.executions for s in steps], last.executions if last else 0),
        compilations_by_step=_growth([s.compiles for s in steps], last.compiles if last else 0),
        settled=_settled(steps),
        reads=counted.reads,
        fallbacks=dict(last.fallbacks) if last else {},
        recompiled=list(_recompiled(steps)),
        problems=check_executions(native, counted, limits),
    )


def check_executions(native: Trace, counted: Trace, limits: Limits) -> list[str]:
    """What is wrong with the counts of a ``count`` run, in words; empty where nothing is.

    Executions must number at least the iterations (fewer: a barrier is missing) and at most the
    iterations, the rounds within them, what is read once and the slack (more: something reads a value in
    the loop, or an iteration has two barriers). From the first optimizer step of the second half to the
    last, compilations must not grow.
    """
    if counted.failure is not None:
        return [f"the run failed: {counted.failure}"]
    problems = list(_executions(native, counted, limits))
    late = compilations_in_second_half(counted)
    if late > limits.compile_slack:
        noun = "compilation" if late == 1 else "compilations"
        problems.append(f"{late} {noun} in the second half of the steps ({limits.compile_slack} allowed)")
    return problems


def _executions(native: Trace, counted: Trace, limits: Limits) -> Iterator[str]:
    iterations = iterations_of(native) if limits.iterations is None else limits.iterations
    rounds = rounds_of(native) if limits.iterations is None else 0
    executions = counted.samples[-1].executions if counted.samples else 0
    once = [read for read in counted.reads if read.steps == 1 and read.executions <= limits.execution_slack]
    allowed = iterations + rounds + sum(read.executions for read in once)  # a picture shown, say
    if iterations and not executions:
        yield (
            f"0 executions for {iterations} iterations: nothing ran on the XLA device. Do the arguments of"
            " the script choose the CPU, or are its barriers missing?"
        )
    elif executions < iterations - counted.stopped:  # ended at a step, before its barrier
        yield (
            f"{executions} executions for {iterations} iterations: the barrier of an iteration is missing,"
            " and its graph grows into that of the next"
        )
    elif executions > allowed + limits.execution_slack:
        within = f" with {rounds} rounds of backward or evaluation in them" if rounds else ""
        reads = [read for read in counted.reads if read not in once]
        yield (
            f"{executions} executions for {iterations} iterations{within} (at most {limits.execution_slack}"
            f" more are allowed): {_culprit(reads, counted, executions - allowed)}"
        )


def _culprit(reads: Sequence[HostRead], counted: Trace, excess: int) -> str:
    """Where executions beyond one an iteration come from."""
    worst = max(reads, key=lambda read: read.executions, default=None)
    if worst is not None and worst.executions > excess / 3:
        return f"{_told(worst)}, and makes the device compute {worst.executions} times"
    fallbacks = counted.samples[-1].fallbacks
    name = max(fallbacks, key=lambda name: fallbacks[name], default="")
    if name and fallbacks[name] > excess / 3:
        return f"{name} is computed by the CPU {fallbacks[name]} times"
    return "an iteration has more than one barrier"


def _told(read: HostRead) -> str:
    return f"{read.where} reads a value from the device ({read.what}) in {read.steps} steps"


def compilations_in_second_half(counted: Trace) -> int:
    """Compilations from the first optimizer step of the second half to the last step."""
    steps = [sample for sample in counted.samples if sample.event == "step"]
    return steps[-1].compiles - steps[len(steps) // 2].compiles if steps else 0


def _growth(counts: list[int], end: int | None = None) -> list[int]:
    return [later - earlier for earlier, later in pairwise([*counts, *([] if end is None else [end])])]


def _settled(steps: list[Sample]) -> int | None:
    """The step by which the last compilation had happened, None where they went on to the end."""
    if not steps:
        return None
    settled = next(i for i, sample in enumerate(steps) if sample.compiles == steps[-1].compiles)
    return settled + 1 if settled < len(steps) - 1 or len(steps) == 1 else None


def _recompiled(steps: list[Sample]) -> Iterator[str]:
    """What had changed when something was compiled in the second half of the steps."""
    seen: list[str] = []
    for number, (earlier, sample) in enumerate(pairwise(steps), 2):
        seen.append(earlier.shapes)
        if number <= len(steps) // 2 + 1 or sample.compiles == earlier.compiles:
            continue
        if sample.shapes not in seen:
            yield f"step {number}: the inputs became {sample.shapes}, before {earlier.shapes}"
        elif earlier.shapes not in seen[:-1] and len(seen) > 1:
            yield f"step {number - 1}: the inputs became {earlier.shapes}, before {seen[-2]}"
        else:
            yield (
                f"step {number}: the inputs kept their shapes; a number or a shape that changes from step to"
                " step is part of the graph"
            )
