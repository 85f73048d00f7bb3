"""What a verdict says, in words and rows: the terminal, the page and the JSON tell it alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from xla_migrate.verify.trace import Failure, HostRead, Trace
from xla_migrate.verify.verdict import Divergence, Outcome, Performance, Verdict

Row = tuple[str, str]
SIDES = ("native", "migrated", "counted")
NAMED = 6
"""Steps that a line names."""

NOTHING = "\N{EN DASH}"
"""Stands in a table where there is no value."""


def headline(verdict: Verdict) -> str:
    """One sentence behind the outcome."""
    comparison = verdict.comparison
    if verdict.outcome is Outcome.NOT_COMPARABLE or comparison is None:
        return first_line(verdict.reason)
    if comparison.first is not None:
        failed = failure_of(verdict, "native") or failure_of(verdict, "migrated")
        if comparison.first.kind == "failure" and failed:
            side = "native" if verdict.native.failure else "migrated"
            return f"the {side} run ended with {failed.kind}: {first_line(failed.message)}"
        return f"first in {subject(comparison.first)}, {comparison.first.where}"
    if verdict.replicas:
        return first_line(verdict.replicas[0])
    if verdict.outcome is Outcome.EQUAL:
        return f"{count(comparison.losses, 'loss', 'losses')} and the final parameters are the same numbers"
    return first_line(verdict.reason)


def failure_of(verdict: Verdict, side: str) -> Failure | None:
    """The exception that ended one of the runs."""
    trace = trace_of(verdict, side)
    return trace.failure if trace else None


def trace_of(verdict: Verdict, side: str) -> Trace | None:
    return {"native": verdict.native, "migrated": verdict.migrated, "counted": verdict.counted}[side]


def subject(divergence: Divergence) -> str:
    """What differs: ``gradient of fc.weight``."""
    return f"{divergence.kind} of {divergence.name}" if divergence.name else divergence.kind


def divergences(verdict: Verdict) -> tuple[Divergence | None, tuple[Divergence, ...]]:
    """The first one, and those of other quantities."""
    comparison = verdict.comparison
    return (comparison.first, comparison.others) if comparison else (None, ())


def divergence_rows(divergence: Divergence) -> list[Row]:
    """What there is to say about one divergence, as label and text."""
    rows = [("native", value(divergence.native)), ("migrated", value(divergence.migrated))]
    if divergence.difference is not None:
        rows.append(("relative difference", relative(divergence.difference)))
    if divergence.bound is not None:
        rows.append(("bound", relative(divergence.bound)))
    if divergence.cause:
        rows.append(("likely cause", divergence.cause))
    return rows


def value(found: object) -> str:
    """One side of a divergence: numbers with the digits that tell two float32 apart."""
    if found is None:
        return "none"
    if isinstance(found, Failure):
        return f"ended with {found.kind}"
    return number(found) if isinstance(found, float) else str(found)


def number(found: float) -> str:
    """A number with all the digits that tell two float32 apart, also where it is none."""
    if math.isnan(found):
        return "not a number"
    if math.isinf(found):
        return "infinite" if found > 0 else "minus infinite"
    return f"{found:.9g}"


def relative(found: float) -> str:
    """A relative difference or a bound: its size is what matters, and a column of them lines up."""
    return f"{found:.1e}" if found and math.isfinite(found) else number(found)


def first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def count(total: int, noun: str, plural: str = "") -> str:
    return f"{total:,} {noun if total == 1 else plural or noun + 's'}"


def settled(performance: Performance) -> str:
    """When compiling came to an end."""
    if performance.settled is not None:
        if not any(performance.compilations_by_step):
            return "nothing was compiled while it trained"
        return f"compilations stopped growing at step {performance.settled:,}"
    if not performance.compilations_by_step:
        return "no optimizer step was taken: nothing can be said of compilations"
    return "compilations grew to the end"


def all_executions(performance: Performance) -> str:
    return f"{performance.executions:,} in all for {count(performance.iterations, 'iteration')}"


def executions(performance: Performance) -> str:
    """How often the device computed in a step, and in all."""
    total = all_executions(performance)
    found = Counter(performance.executions_by_step)
    if not found:
        return total
    usual, steps = found.most_common(1)[0]
    if len(found) == 1:
        return f"{usual:,} ({total})"
    low, high = min(found), max(found)
    return f"{usual:,} in {steps:,} of {count(sum(found.values()), 'step')}, {low:,} to {high:,} ({total})"


def reads(performance: Performance) -> list[HostRead]:
    """Reads of device values, those that made the device compute first."""
    return sorted(performance.reads, key=lambda read: (-read.executions, -read.count, read.where))


def recompiled(performance: Performance) -> list[str]:
    """What had changed when something was compiled again; what happened alike at several steps once."""
    steps: dict[str, list[str]] = {}
    for text in performance.recompiled:
        step, found, what = text.partition(": ")
        steps.setdefault(what if found else text, []).append(step.removeprefix("step ") if found else "")
    return [_at_steps(what, numbers) for what, numbers in steps.items()]


def _at_steps(what: str, numbers: list[str]) -> str:
    if numbers == [""]:
        return what
    if len(numbers) == 1:
        return f"step {numbers[0]}: {what}"
    shown = ", ".join(numbers[:NAMED])
    return f"steps {shown}{f' and {len(numbers) - NAMED} more' if len(numbers) > NAMED else ''}: {what}"


def per_step(total: int, steps: int) -> str:
    return "" if not steps else f"{total / steps:.3g}"


def machine_rows(verdict: Verdict) -> list[tuple[str, list[str]]]:
    """What each run ran on and with: a label, and a text for each of :func:`machine_columns`."""
    traces = [trace for side in SIDES if (trace := trace_of(verdict, side))]
    columns = [dict(_machine(trace)) for trace in traces]
    labels = dict.fromkeys(label for column in columns for label in column)
    return [(label, [column.get(label, "") for column in columns]) for label in labels]


def machine_columns(verdict: Verdict) -> list[str]:
    return ["native", "migrated", *(["migrated, counted"] if verdict.counted else [])]


def _machine(trace: Trace) -> Iterator[Row]:
    machine = dict(trace.machine)
    if not machine and not trace.steps:
        yield "device", "not run"
        return
    yield "device", machine.pop("device", "unknown")
    yield from machine.items()
    yield "script", " ".join([trace.script, *trace.argv])
    yield "lowest precision", trace.dtype
    yield "random numbers", f"{trace.rng}, seed {trace.seed}"
    if trace.world > 1:
        yield "replicas", f"{trace.world}, this is rank {trace.rank}"
    ended = " (ended there)" if trace.stopped else ""
    yield "optimizer steps", f"{len(trace.steps):,}{ended}"
    yield "losses", f"{len(trace.losses):,}"
    yield "time", f"{trace.seconds:.1f} s"


def problems(verdict: Verdict) -> list[str]:
    """What is wrong with the cost; a failure of that run is told apart, so one line does for it."""
    return [first_line(problem) for problem in verdict.performance.problems] if verdict.performance else []


def failures(verdict: Verdict) -> list[tuple[str, Failure]]:
    """The runs that did not come to their end."""
    names = {"native": "native run", "migrated": "migrated run", "counted": "counted migrated run"}
    return [(names[side], found) for side in SIDES if (found := failure_of(verdict, side))]


def tail(lines: Sequence[str], limit: int) -> list[str]:
    """The last lines, with a word on those left out."""
    left = len(lines) - limit
    return [f"({count(left, 'line')} before)", *lines[-limit:]] if left > 0 else list(lines)
