"""What must hold between the replicas of a run, and how their runs are laid against native ones.

Each check is a function from a :class:`Run` to sentences that name the step and the cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from xla_migrate.verify.samples import order_problems, sample_problems, shared_samples
from xla_migrate.verify.trace import Collective, Evaluation, Step, Trace, name_of

REPLICA_ERROR = "ReplicaError"
SAME = 1e-6
"""Replicas that do the same compute the same bits; what is recorded of them passes through float32."""

DIGEST = 10.0
"""The digest of a parameter may move so many times as far as its norm."""

ALIKE = 1e-3
"""Gradients of different samples differ more than this."""


@dataclass(frozen=True)
class Run:
    """The traces of all replicas, by rank, and those of the native run: a rank each, or one."""

    replicas: Sequence[Trace]
    native: Sequence[Trace]

    def steps(self) -> Iterator[tuple[int, list[Step]]]:
        """The steps that all replicas took, numbered from 1."""
        together = zip(*(trace.steps for trace in self.replicas), strict=False)
        return ((number, list(steps)) for number, steps in enumerate(together, 1))


def check_replicas(replicas: Sequence[Trace], native: Sequence[Trace] = ()) -> tuple[str, ...]:
    """What is wrong between the replicas of a migrated run, the most telling first; for
    ``Verdict.replicas``. ``native`` excuses what the native run did as well."""
    run = Run(replicas, native)
    if len(replicas) < 2:
        return tuple(_failures(run))
    found = [problem for check in CHECKS for problem in check(run)]
    return tuple(dict.fromkeys(found))


def _failures(run: Run) -> Iterator[str]:
    failures = [(trace.rank, trace.failure) for trace in run.replicas if trace.failure is not None]
    own = [(rank, failure) for rank, failure in failures if failure.kind != REPLICA_ERROR]
    if own:
        for rank, failure in own:
            yield f"replica {rank} failed: {failure.kind}: {failure.message}"
    elif failures:
        yield failures[0][1].message


def _different_calls(run: Run) -> Iterator[str]:
    """Collectives in another order, where that did not end the run."""
    if any(trace.failure for trace in run.replicas):
        return
    first, *others = ([c for c in trace.collectives if not _saves(c)] for trace in run.replicas)
    for rank, calls in enumerate(others, 1):
        for number, (one, other) in enumerate(zip_longest(first, calls), 1):
            if one is None or other is None or one.name != other.name:
                yield f"collective {number}: replica 0 {_called(one)}; replica {rank} {_called(other)}"
                break


def _called(call: Collective | None) -> str:
    return "calls nothing any more" if call is None else f"calls {call.name}{_at(call.where)}"


def _at(place: str) -> str:
    return f" at {place}" if place else ""


def _saves(call: Collective) -> bool:
    return call.name == "xm.save"


def _guarded_saves(run: Run) -> Iterator[str]:
    """Saves that some replicas alone make while a reduction is pending, which saving would execute.

    Source: pytorch/xla v2.1.0, ``xla_model.save``: from that release on it waits for nobody itself.
    """
    pending = {c.where for trace in run.replicas for c in trace.collectives if _saves(c) and c.pending}
    calls = [Counter(c.where for c in trace.collectives if _saves(c)) for trace in run.replicas]
    for place in sorted(set().union(*calls)):
        missing = [rank for rank, counts in enumerate(calls) if not counts[place]]
        if missing and place in pending:
            present = [rank for rank in range(len(calls)) if rank not in missing]
            yield (
                f"xm.save{_at(place)} is called by {_ranks(present)} and not by {_ranks(missing)}: take it "
                "out of the condition on the rank: all have to call it, and it writes on the first only"
            )


def _ranks(ranks: Sequence[int]) -> str:
    names = ", ".join(map(str, ranks))
    return f"replica {names}" if len(ranks) == 1 else f"replicas {names}"


def _files_written_twice(run: Run) -> Iterator[str]:
    native = Counter(name for trace in run.native for name in trace.files)
    writers: dict[str, list[int]] = {}
    for trace in run.replicas:
        for name in trace.files:
            writers.setdefault(name, []).append(trace.rank)
    for name, ranks in sorted(writers.items()):
        if len(ranks) > 1 and not (len(run.native) > 1 and native[name] > 1):
            yield f"{name} is written by {_ranks(ranks)}: one replica is to write it (xm.save does that)"


def _step_counts(run: Run) -> Iterator[str]:
    counts = [len(trace.steps) for trace in run.replicas]
    if len(set(counts)) > 1 and not any(trace.failure for trace in run.replicas):
        shown = ", ".join(f"{count} by replica {rank}" for rank, count in enumerate(counts))
        yield f"the replicas take another number of optimizer steps: {shown}"


def _reductions(run: Run) -> Iterator[str]:
    """Each gradient is reduced exactly once before what uses it, the step or the script."""
    problems: dict[str, list[int]] = {}
    for number, steps in run.steps():
        counts = [trace.reductions[number - 1] for trace in run.replicas if len(trace.reductions) >= number]
        if counts and all(counts):
            fewest, most = min(low for low, _ in counts), max(high for _, high in counts)
            for problem in _reduction_problem(fewest, most, steps, run):
                problems.setdefault(problem, []).append(number)
    for problem, numbers in problems.items():
        yield f"{_in_steps(numbers)} {problem}"


def _reduction_problem(fewest: int, most: int, steps: list[Step], run: Run) -> Iterator[str]:
    if fewest == 0 and not _reduced_otherwise(steps, run):
        which = "the gradients are" if most == 0 else "some of the gradients are"
        yield (
            f"{which} not reduced over the replicas: xm.optimizer_step in the place of optimizer.step, "
            "or xm.reduce_gradients before it, is missing"
        )
    if most > 1:
        cause = (
            "once for each backward: once before the step is enough"
            if steps[0].order.count("backward") >= most
            else "xm.optimizer_step reduces them as well: leave the other reduction out"
        )
        yield f"the gradients are reduced {most} times: {cause}"


def _reduced_otherwise(steps: list[Step], run: Run) -> bool:
    """All replicas have the same gradients, and not because they see the same samples."""
    first, *others = (step.gradients for step in steps)
    alike = all(_near(a, b, ALIKE) for other in others for a, b in zip(first, other, strict=False))
    return alike and not shared_samples(run.replicas)


def _in_steps(numbers: list[int]) -> str:
    more = len(numbers) - 1
    return f"in step {numbers[0]}" + (f" (and {more} more)" if more else "")


def _clip_before_reduce(run: Run) -> Iterator[str]:
    for number, step in enumerate(run.replicas[0].steps, 1):
        if "reduce" in step.behind_clip():
            yield (
                f"in step {number} gradients are clipped before they are reduced: each replica clips its own "
                "share; call xm.reduce_gradients, then clip, then optimizer.step"
            )
            return


def _parameters(run: Run) -> Iterator[str]:
    """Parameters stay equal over the replicas after each step."""
    for number, steps in run.steps():
        for rank, step in enumerate(steps[1:], 1):
            position = _first_difference(steps[0], step)
            if position is not None:
                name = name_of(run.replicas[0], step.optimizer, position)
                values = f"norm {steps[0].norms[position]:.6g} and {step.norms[position]:.6g}"
                yield (
                    f"after step {number} {name} differs between replicas 0 and {rank} ({values}): "
                    f"{_why_different(run, number, steps)}"
                )
                return


def _first_difference(one: Step, other: Step) -> int | None:
    pairs = zip(one.norms, other.norms, one.digests, other.digests, strict=False)
    for position, (norm, norm_too, digest, digest_too) in enumerate(pairs):
        scale = max(abs(norm), abs(norm_too))
        if not abs(norm - norm_too) <= SAME * scale:
            return position
        if not abs(digest - digest_too) <= DIGEST * SAME * scale:
            return position
    return None


def _why_different(run: Run, number: int, steps: list[Step]) -> str:
    counts = [trace.reductions[number - 1] for trace in run.replicas if len(trace.reductions) >= number]
    if any(count and count[0] == 0 for count in counts):
        return "each replica goes its own way, as its gradients are not reduced"
    rates = [step.learning_rates for step in steps]
    if any(rate != rates[0] for rate in rates):
        return f"their learning rates differ ({rates[0]} and {rates[-1]})"
    if number == 1:
        return (
            "they start with different weights: call xm.broadcast_master_param(model), or make the model "
            "after the same seed"
        )
    return "something other than the optimizer changes it in one replica only"


def _samples(run: Run) -> Iterator[str]:
    failed = any(trace.failure for trace in run.replicas)  # what is missing then says nothing
    yield from sample_problems(run.replicas, () if failed else run.native)


def _shuffling(run: Run) -> Iterator[str]:
    yield from order_problems(run.replicas, run.native)


def _near(one: float, other: float, bound: float) -> bool:
    return abs(one - other) <= bound * max(abs(one), abs(other))


CHECKS: tuple[Callable[[Run], Iterable[str]], ...] = (
    _failures, _reductions, _clip_before_reduce, _samples, _shuffling, _parameters, _different_calls,
    _step_counts, _guarded_saves, _files_written_twice,
)  # fmt: skip


def aligned(native: Sequence[Trace], replicas: Sequence[Trace]) -> list[tuple[Trace, Trace]]:
    """The pairs of traces to compare: rank by rank where both sides have as many, else the one
    native trace (with the N-fold batch) and what the replicas did together.

    Raises ValueError where the numbers of traces do not fit.
    """
    if len(native) == len(replicas):
        return list(zip(native, replicas, strict=True))
    if len(native) != 1 or not replicas:
        raise ValueError(f"{len(native)} native ranks cannot be compared with {len(replicas)} replicas")
    return [(native[0], together(replicas))]


def telling(run: Sequence[Trace]) -> Trace:
    """The rank that says what is wrong: one that failed, rather than one that waited for it in vain."""
    failed = [trace for trace in run if trace.failure is not None]
    own = [trace for trace in failed if trace.failure and trace.failure.kind != REPLICA_ERROR]
    return (own or failed or run)[0]


def together(replicas: Sequence[Trace]) -> Trace:
    """One trace for all replicas: the mean of their losses, their batches side by side, what is
    common to all of them from the first."""
    first = replicas[0]
    failures = [trace.failure for trace in replicas if trace.failure is not None]
    return replace(
        first,
        losses=[_mean(losses) for losses in zip(*(trace.losses for trace in replicas), strict=False)],
        evaluations=[_merged(made) for made in zip(*(t.evaluations for t in replicas), strict=False)],
        files={name: size for trace in replicas for name, size in trace.files.items()},
        failure=failures[0] if failures else None,
    )


def _mean(losses: Sequence[float | None]) -> float | None:
    known = [loss for loss in losses if loss is not None]
    return sum(known) / len(known) if len(known) == len(losses) else None


def _merged(made: Sequence[Evaluation]) -> Evaluation:
    elements = sum(one.elements for one in made)
    square = sum(one.value**2 * one.elements for one in made) / max(elements, 1)
    return replace(made[0], value=square**0.5, elements=elements)


def comparable_samples(native: Trace, replicas: Sequence[Trace]) -> str:
    """Why the steps of one native process and of replicas cannot be laid side by side, empty where
    they can: in each step all replicas together, or each of them, must see the native batch."""
    columns = zip(*(trace.loaded for trace in replicas), strict=False)
    for number, (one, batches) in enumerate(zip(native.loaded, columns, strict=False), 1):
        seen = [batch.samples for batch in batches]
        if one.samples is None or any(samples is None for samples in seen):
            continue
        union = Counter(s for samples in seen for s in samples or ())
        if Counter(one.samples) != union and any(samples != one.samples for samples in seen):
            return (
                f"batch {number} of the native run is not what the replicas see together: the samplers "
                "shuffle in another order, so only whole epochs compare"
            )
    return ""
