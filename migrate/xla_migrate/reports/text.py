"""The report for people: a diff, the findings, one line of summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TextIO

from xla_migrate.notebooks import NotebookOutcome
from xla_migrate.notebooks.showing import cell_place, differences
from xla_transforms.findings import Finding, Severity

if TYPE_CHECKING:
    from xla_migrate.documents import Document
    from xla_migrate.files import FileProblem

# One line as pieces of text, each with a style that rich understands (or none).
Line = Sequence[tuple[str, str]]

_SEVERITY_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_DIFF_STYLES = (("---", "bold"), ("+++", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != 9}


class Printer:
    """Writes lines to a text stream, in colour through rich or plainly without importing it."""

    def __init__(self, stream: TextIO, colour: bool) -> None:
        self._stream = stream
        self._colour = colour

    def print(self, lines: Iterable[Line]) -> None:
        if self._colour:
            self._print_coloured(lines)
            return
        for line in lines:
            self._stream.write("".join(text for text, _ in line) + "\n")

    def _print_coloured(self, lines: Iterable[Line]) -> None:
        from rich.console import Console
        from rich.text import Text

        console = Console(
            file=self._stream, force_terminal=True, color_system="standard", no_color=False
        )
        for line in lines:
            console.print(Text.assemble(*line), soft_wrap=True)


def difference(document: Document, path: str) -> Iterator[Line]:
    """The unified diff of one document, of a notebook that of each cell; ``path`` is the name to show."""
    from xla_migrate.diff import text_diff

    outcome = document.outcome
    if outcome is None:
        return
    if isinstance(outcome, NotebookOutcome):
        yield from chain.from_iterable(map(_coloured, differences(outcome, path)))
    else:
        yield from _coloured(text_diff(outcome.source, outcome.code, outcome.edits, path))


def _coloured(diff: str) -> Iterator[Line]:
    heading = True
    for text in diff.split("\n")[:-1]:
        heading = heading and not text.startswith("@@")
        styles = _DIFF_STYLES if heading else _DIFF_STYLES[2:]
        style = next((style for mark, style in styles if text.startswith(mark)), "")
        yield [(shown(text.removesuffix("\r")), style)]


def findings(document: Document, written_to: str | None = None) -> Iterator[Line]:
    """Every finding of a document that was processed, with its advice below it.

    Lines are those of the file as it now is: of the migrated one where it was written, be it to
    another file.
    """
    path = written_to or document.path
    for finding in document.outcome.findings if document.outcome else ():
        yield [
            (f"{shown(path)}:{_place(document, finding)}: ", "bold"),
            (finding.severity.label, _SEVERITY_STYLES[finding.severity]),
            (f" {finding.code} {shown(finding.message)}", ""),
            (" (done)" if finding.fixed else "", "green"),
        ]
        if finding.advice:
            yield [(f"    {shown(finding.advice)}", "dim")]


def _place(document: Document, finding: Finding) -> str:
    """Line and column, in a notebook those in a cell."""
    from xla_migrate.diff import place_after

    span, outcome = finding.span, document.outcome
    if outcome is None:
        return f"{span.line}:{span.column}"
    written = document.written and document.changed
    in_cell = cell_place(outcome, span.start, migrated=written)
    if in_cell or not written:
        return in_cell or f"{span.line}:{span.column}"
    return "{}:{}".format(*place_after(outcome.source, outcome.code, outcome.edits, span.start))


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


def changed_file(document: Document, verb: str) -> Line:
    changes = len(document.outcome.changes) if document.outcome else 0
    return [(shown(document.path), "bold"), (f": {verb} ({_count(changes, 'change')})", "")]


def summary(documents: Sequence[Document], verb: str, ending: str) -> Line:
    """One line: how many files and changes, how many findings and failures.

    ``verb`` says what happened to the changed files ("to migrate", "migrated").
    """
    changed = [document for document in documents if document.changed and not document.failed]
    changes = sum(len(document.outcome.changes) for document in changed if document.outcome)
    failed = sum(document.failed for document in documents)
    if changed:
        files = f"{len(changed)} of {_count(len(documents), 'file')} {verb}"
        parts = [f"{files} ({_count(changes, 'change')})"]
    else:
        parts = [f"nothing to migrate in {_count(len(documents) - failed, 'file')}"]
    parts.append(_finding_counts([f for d in documents if not d.failed for f in d.findings]))
    if failed:
        parts.append(f"{_count(failed, 'file')} failed")
    return [("; ".join(parts) + ending, "bold red" if failed else "bold")]


def target(name: str, reason: str) -> Line:
    """The target that was chosen by itself, and what it was chosen by."""
    return [(f"target {name}", "bold"), (f" ({shown(reason)})", "")]


def shown(text: str) -> str:
    """Text fit for a terminal: control characters, which could steer it, are spelled out."""
    return text.translate(_CONTROL)


def _finding_counts(found: Sequence[Finding]) -> str:
    if not found:
        return "no findings"
    counts = [
        _count(number, severity.label) if severity is not Severity.INFO else f"{number} info"
        for severity in reversed(Severity)
        if (number := sum(finding.severity is severity for finding in found))
    ]
    return f"{_count(len(found), 'finding')} ({', '.join(counts)})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
