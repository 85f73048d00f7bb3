"""The report for people: a diff, the findings by file and kind with their lines, a line of summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from xla_migrate.notebooks import NotebookOutcome
from xla_migrate.notebooks.showing import differences
from xla_migrate.reports import summary
from xla_migrate.reports.terminal import Line, printed, shown
from xla_transforms.findings import Finding

if TYPE_CHECKING:
    from xla_migrate.documents import Document
    from xla_migrate.reports.run import Place, Run

_DIFF_STYLES = (("---", "bold"), ("+++", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
LONGEST = 100
"""Characters of a source line that are shown."""


def report(run: Run) -> str:
    """Everything, or with ``run.quiet`` the outline alone."""
    lines = [summary.outline(run, _difference)]
    if not run.quiet:
        told = (document for document in run.done if document.findings)
        lines += [chain.from_iterable(_findings(run, document) for document in told), summary.lines(run)]
    return printed(chain.from_iterable(lines), run.colour)


def _difference(run: Run, document: Document) -> Iterator[Line]:
    from xla_migrate.diff import text_diff

    outcome, name = document.outcome, run.patch_name(document)
    if outcome is None:
        return
    if isinstance(outcome, NotebookOutcome):
        yield from chain.from_iterable(map(_coloured, differences(outcome, name)))
    else:
        yield from _coloured(text_diff(outcome.source, outcome.code, outcome.edits, name))


def _coloured(diff: str) -> Iterator[Line]:
    heading = True
    for text in diff.split("\n")[:-1]:
        heading = heading and not text.startswith("@@")
        styles = _DIFF_STYLES if heading else _DIFF_STYLES[2:]
        style = next((style for mark, style in styles if text.startswith(mark)), "")
        yield [(shown(text.removesuffix("\r")), style)]


def _findings(run: Run, document: Document) -> Iterator[Line]:
    """The findings of a document: what says the same stands together, what matters most first."""
    kinds: dict[tuple[int, str, str, str, bool], list[Finding]] = {}
    for finding in document.findings:
        kind = (-finding.severity, finding.code, finding.message, finding.advice, finding.fixed)
        kinds.setdefault(kind, []).append(finding)
    counts = summary.severities(document.findings)
    yield [(shown(run.name(document)), "bold underline"), (f": {counts}", "bold")]
    for several in sorted(kinds.values(), key=lambda found: (-found[0].severity, found[0].span)):
        yield from _kind(run, document, several)


def _kind(run: Run, document: Document, several: Sequence[Finding]) -> Iterator[Line]:
    first = several[0]
    yield [
        (f"  {first.severity.label}", summary.STYLES[first.severity]),
        (f" {first.code} {first.name}", "bold"),
        (f": {shown(first.message)}", ""),
        (" (done)" if first.fixed else "", "green"),
    ]
    places = [run.place(document, finding.span) for finding in several]
    names = [f"{shown(run.name(document))}:{run.where(document, finding.span)}" for finding in several]
    width = max(map(len, names))
    for name, place in zip(names, places, strict=True):
        source = shown(_excerpt(run.line(document, place), place))
        yield [(f"    {name:<{width if source else 0}}", "cyan"), (f"  | {source}" if source else "", "")]
    if first.advice:
        yield [(f"    {shown(first.advice)}", "dim")]


def _excerpt(line: str, place: Place) -> str:
    """A line without its indentation, of a long one the part that is meant."""
    text = line.strip()
    if len(text) <= LONGEST:
        return text
    wanted = place.column - 1 - (len(line) - len(line.lstrip())) - 20
    start = max(0, min(wanted, len(text) - LONGEST))
    end = start + LONGEST
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
