"""The report for people and editors in one line a finding: place, severity, rule, message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xla_migrate.reports import summary
from xla_migrate.reports.terminal import Line, printed, shown

if TYPE_CHECKING:
    from xla_migrate.reports.run import Run


def report(run: Run) -> str:
    """A line for each changed file and each finding, and the summary; no diff."""
    return printed(_lines(run), run.colour)


def _lines(run: Run) -> Iterator[Line]:
    if run.outline != "nothing":
        yield from (summary.changed_file(run, document) for document in run.changed)
    if run.quiet:
        return
    for document in run.done:
        for finding in document.findings:
            yield [
                (f"{shown(run.name(document))}:{run.where(document, finding.span)}: ", "bold"),
                (finding.severity.label, summary.STYLES[finding.severity]),
                (f" {finding.code} {shown(finding.message)}", ""),
                (" (done)" if finding.fixed else "", "green"),
            ]
    yield from summary.lines(run)
