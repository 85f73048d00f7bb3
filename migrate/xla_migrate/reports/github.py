"""Workflow commands of GitHub Actions: annotations of the lines of a pull request.

Source: GitHub's documentation, "Workflow commands": data escapes ``%``, CR and LF, a property also
``:`` and ``,``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xla_migrate.reports import summary
from xla_migrate.reports.run import Run, level
from xla_migrate.reports.terminal import count, shown
from xla_transforms.findings import Finding, Severity

if TYPE_CHECKING:
    from xla_migrate.documents import Document

COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
Properties = dict[str, str | int]
TABLE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
PROPERTY = TABLE | str.maketrans({":": "%3A", ",": "%2C"})


def report(run: Run) -> str:
    """A command for each finding, one for each file with changes pending, and the summary in the log.

    GitHub shows ten annotations of a kind for each step: those that matter most come first.
    """
    found = sorted(run.findings, key=lambda pair: -level(pair[1]))
    lines = [_finding(run, document, finding) for document, finding in found]
    return "".join(f"{line}\n" for line in (*lines, *_pending(run), summary.sentence(run)))


def _finding(run: Run, document: Document, finding: Finding) -> str:
    place = run.place(document, finding.span)
    properties: Properties = {"file": run.path(document), "line": place.line}
    if place.end_line == place.line:  # GitHub takes columns only for a single line
        properties |= {"col": place.column, "endColumn": max(place.column, place.end_column - 1)}
    else:
        properties["endLine"] = place.end_line
    properties["title"] = f"{finding.code} {finding.name}"
    text = f"{finding.message}\n{finding.advice}" if finding.advice else finding.message
    return command(COMMANDS[level(finding)], properties, text + (" (done)" if finding.fixed else ""))


def _pending(run: Run) -> Iterator[str]:
    for document in run.changed:
        if document.pending and document.outcome is not None:
            changes = document.outcome.changes
            first = min(span for change in changes for span in change.spans)
            text = f"{count(len(changes), 'change')} to PyTorch/XLA pending; --inplace writes them"
            where: Properties = {"file": run.path(document), "line": first.line, "title": "xla-migrate"}
            yield command("notice", where, text)


def command(name: str, properties: Properties, text: str) -> str:
    """A workflow command in which neither text nor property can start another one."""
    written = ",".join(f"{key}={_safe(str(value), PROPERTY)}" for key, value in properties.items())
    return f"::{name} {written}::{_safe(text, TABLE)}"


def _safe(text: str, table: dict[int, str]) -> str:
    """A text that cannot end its command, nor begin one of its own."""
    return "".join(shown(part) if part not in "\r\n" else part for part in text).translate(table)
