"""The report on two runs for people at a terminal: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from xla_migrate.reports import verify_facts as facts
from xla_migrate.reports.terminal import Line, shown
from xla_migrate.verify.verdict import Divergence, Outcome, Performance, Verdict

STYLES = {
    Outcome.EQUAL: "bold green",
    Outcome.WITHIN: "bold green",
    Outcome.DIVERGED: "bold red",
    Outcome.NOT_COMPARABLE: "bold yellow",
}
MESSAGE_LINES, OTHERS, READS = 12, 12, 10
"""How much of a failure's message, of the other divergences and of the host reads is shown."""


def lines(verdict: Verdict) -> Iterator[Line]:
    """All of it, line by line."""
    style = STYLES[verdict.outcome]
    yield [(verdict.outcome.value, style), (": ", style), (shown(facts.headline(verdict)), "bold")]
    yield from _failures(verdict)
    yield from _differences(verdict)
    yield from _replicas(verdict)
    if verdict.performance is not None:
        yield from _cost(verdict.performance, facts.problems(verdict), verdict)
    yield from _machines(verdict)


def _failures(verdict: Verdict) -> Iterator[Line]:
    for run, failure in facts.failures(verdict):
        yield _heading(f"the {run} ended with {failure.kind}")
        for line in facts.tail(failure.message.splitlines(), MESSAGE_LINES):
            yield _indented(line, "red")
        for frame in failure.frames:
            yield from (_indented(line, "dim", 4) for line in frame.splitlines())


def _differences(verdict: Verdict) -> Iterator[Line]:
    first, others = facts.divergences(verdict)
    if first is not None and first.kind != "failure":
        yield _heading("first divergence")
        yield [("  ", ""), (shown(facts.subject(first)), "bold"), (f", {shown(first.where)}", "")]
        yield from _rows(facts.divergence_rows(first), 4)
    if others:
        yield _heading("what else differs")
    for other in others[:OTHERS]:
        yield _in_a_line(other)
        if other.cause:
            yield _indented(other.cause, "dim", 4)
    if len(others) > OTHERS:
        yield _indented(f"and {facts.count(len(others) - OTHERS, 'more quantity', 'more quantities')}")
    if verdict.floor is not None:
        yield _indented(f"rounding alone moves the native run by {facts.relative(verdict.floor)}", "dim")


def _in_a_line(divergence: Divergence) -> Line:
    native, migrated = facts.value(divergence.native), facts.value(divergence.migrated)
    text = f"{facts.subject(divergence)}, {divergence.where}: native {native}, migrated {migrated}"
    if divergence.difference is not None and divergence.bound is not None:
        difference, bound = facts.relative(divergence.difference), facts.relative(divergence.bound)
        text += f" (relative difference {difference}, bound {bound})"
    return _indented(text)


def _replicas(verdict: Verdict) -> Iterator[Line]:
    if verdict.replicas:
        yield _heading("replicas")
        yield from (_problem(problem) for problem in verdict.replicas)


def _cost(performance: Performance, problems: list[str], verdict: Verdict) -> Iterator[Line]:
    yield _heading("performance of the migrated run")
    yield from (_problem(problem) for problem in problems)
    yield _indented(facts.settled(performance))
    yield _indented(f"executions per step: {facts.executions(performance)}")
    yield from (_indented(f"compiled again: {text}") for text in facts.recompiled(performance))
    for name, calls in performance.fallbacks.items():
        yield _indented(f"computed by the CPU: {name}, {facts.count(calls, 'call')}")
    steps = len(verdict.counted.steps) if verdict.counted else 0
    yield from _reads(performance, steps)


def _reads(performance: Performance, steps: int) -> Iterator[Line]:
    found = facts.reads(performance)
    if not found:
        yield _indented("host reads per step: none")
        return
    total = facts.per_step(sum(read.count for read in found), steps)
    yield _indented(f"host reads per step, by line of the migrated script: {total or 'no step was taken'}")
    places = [shown(f"{read.where}  {read.what}") for read in found[:READS]]
    width = max(map(len, places))
    for place, read in zip(places, found, strict=False):
        reads, executions = facts.count(read.count, "read"), facts.count(read.executions, "execution")
        text = f"{reads} in {read.steps:,} of {facts.count(steps, 'step')}, {executions}"
        yield [("    ", ""), (place.ljust(width), "bold"), (f"  {text}", "")]
    if len(found) > READS:
        yield _indented(f"and {facts.count(len(found) - READS, 'more place')}", "", 4)


def _machines(verdict: Verdict) -> Iterator[Line]:
    """The facts that all runs share once, then what tells them apart."""
    yield _heading("ran on")
    rows = facts.machine_rows(verdict)
    alike = [(label, texts[0]) for label, texts in rows if len(set(texts)) == 1]
    yield from _rows([row for row in alike if row[1]], 2)
    for number, run in enumerate(facts.machine_columns(verdict)):
        own = [(label, texts[number]) for label, texts in rows if len(set(texts)) > 1 and texts[number]]
        told = "; ".join(text if label == "device" else f"{label} {text}" for label, text in own)
        yield _indented(f"{run}: {told}")


def _rows(rows: list[facts.Row], indent: int) -> Iterator[Line]:
    width = max((len(label) for label, _ in rows), default=0)
    for label, text in rows:
        first, *more = text.splitlines() or [""]
        yield [(" " * indent + f"{label.ljust(width)}  ", "dim"), (shown(first), "")]
        yield from (_indented(line, "", indent + width + 2) for line in more)


def _heading(text: str) -> Line:
    return [(shown(text), "bold cyan")]


def _problem(text: str) -> Line:
    return [("  ", ""), ("problem: ", "yellow"), (shown(text), "")]


def _indented(text: str, style: str = "", indent: int = 2) -> Line:
    return [(" " * indent + shown(text), style)]
