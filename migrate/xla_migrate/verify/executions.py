"""Whether a migrated script runs one execution an iteration and stops compiling."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from xla_migrate.verify.trace import Trace


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


def check_executions(native: Trace, counted: Trace, limits: Limits) -> list[str]:
    """What is wrong with the counts of a ``count`` run, in words; empty where nothing is.

    Executions must number at least the iterations (fewer: a barrier is missing) and at most the
    iterations and the slack (more: something reads a value in the loop, or an iteration has two
    barriers). From the first optimizer step of the second half to the last, compilations must not
    grow.
    """
    if counted.failure is not None:
        return [f"the run failed: {counted.failure}"]
    iterations = iterations_of(native) if limits.iterations is None else limits.iterations
    executions = counted.samples[-1].executions if counted.samples else 0
    problems = []
    if not iterations <= executions <= iterations + limits.execution_slack:
        problems.append(
            f"{executions} executions for {iterations} iterations "
            f"(at most {limits.execution_slack} more are allowed)"
        )
    late = compilations_in_second_half(counted)
    if late > limits.compile_slack:
        problems.append(
            f"{late} compilations in the second half of the steps ({limits.compile_slack} allowed)"
        )
    return problems


def compilations_in_second_half(counted: Trace) -> int:
    """Compilations from the first optimizer step of the second half to the last step."""
    steps = [sample for sample in counted.samples if sample.event == "step"]
    return steps[-1].compiles - steps[len(steps) // 2].compiles if steps else 0
