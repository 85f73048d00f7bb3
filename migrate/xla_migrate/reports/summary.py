"""What the reports for people share: a line for each changed file, failures, and one line for it all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from xla_migrate.reports.terminal import Line, count, shown
from xla_transforms.findings import Finding, Severity

if TYPE_CHECKING:
    from xla_migrate.documents import Document
    from xla_migrate.files import FileProblem
    from xla_migrate.reports.run import Run

STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def outline(run: Run, difference: Callable[[Run, Document], Iterator[Line]]) -> Iterator[Line]:
    """The diffs of a preview, else a line for each changed file."""
    for document in run.changed:
        if run.outline == "diff":
            yield from difference(run, document)
        elif run.outline == "files" and not run.quiet:
            yield changed_file(run, document)


def changed_file(run: Run, document: Document) -> Line:
    changes = len(document.outcome.changes) if document.outcome else 0
    return [(shown(document.path), "bold"), (f": {run.verb} ({count(changes, 'change')})", "")]


def failures(document: Document) -> Iterator[Line]:
    """Why a document could not be processed: file, line and reason."""
    if document.problem is not None:
        yield problem(document.problem)
    elif document.outcome is not None and document.outcome.failed:
        for finding in document.outcome.findings:
            place = f"{shown(document.path)}:{finding.span.line}:{finding.span.column}: "
            yield [("error: ", "bold red"), (place, "bold"), (shown(finding.message), "")]
            if finding.advice:
                yield [(f"    {shown(finding.advice)}", "dim")]


def problem(failure: FileProblem) -> Line:
    return [("error: ", "bold red"), (f"{shown(failure.path)}: ", "bold"), (failure.message, "")]


def lines(run: Run) -> Iterator[Line]:
    """The target where it was chosen by itself, and how many files, changes, findings and failures."""
    if run.target.reason:
        yield [(f"target {run.target.target}", "bold"), (f" ({shown(run.target.reason)})", "")]
    yield [(sentence(run), "bold red" if run.failed else "bold")]


def sentence(run: Run) -> str:
    """The summary in one line."""
    failed = len(run.failed)
    if run.changed:
        changes = sum(len(d.outcome.changes) for d in run.changed if d.outcome)
        files = f"{len(run.changed)} of {count(len(run.documents), 'file')} {run.verb}"
        parts = [f"{files} ({count(changes, 'change')})"]
    else:
        parts = [f"nothing to migrate in {count(len(run.done), 'file')}"]
    found = [finding for document, finding in run.findings if not document.failed]
    parts.append(f"{count(len(found), 'finding')} ({severities(found)})" if found else "no findings")
    parts += [f"{count(failed, 'file')} failed"] if failed else []
    waiting = "waits" if run.waiting == 1 else "wait"
    parts += [f"{count(run.waiting, 'unsafe change')} {waiting} (--unsafe-fixes)"] if run.waiting else []
    parts += ["nothing written (--inplace writes)"] if run.outline == "diff" and run.changed else []
    return "; ".join(parts)


def severities(found: Sequence[Finding]) -> str:
    """How many findings there are of each severity, the greatest first."""
    counts = [
        count(number, severity.label) if severity is not Severity.INFO else f"{number} info"
        for severity in reversed(Severity)
        if (number := sum(finding.severity is severity for finding in found))
    ]
    return ", ".join(counts)
