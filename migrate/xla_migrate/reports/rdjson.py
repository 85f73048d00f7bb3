"""Diagnostics for reviewdog, with its suggestions.

Source: reviewdog, ``proto/rdf/reviewdog.proto``: columns count bytes of UTF-8 from 1, the end excluded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from xla_migrate.reports.run import Place, Run, extent, fix, level
from xla_transforms.findings import Change, Finding, Severity

if TYPE_CHECKING:
    from xla_migrate.documents import Document

SEVERITIES = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.INFO: "INFO"}


def report(run: Run) -> str:
    """A diagnostic for each finding, and one with a suggestion for each change that is not written."""
    found = [_finding(run, document, finding) for document, finding in run.findings]
    found += [_change(run, document, change) for document, change in run.pending]
    content = {"source": {"name": "xla-migrate"}, "diagnostics": found}
    return json.dumps(content, indent=2) + "\n"


def _finding(run: Run, document: Document, finding: Finding) -> dict[str, Any]:
    text = f"{finding.message}\n{finding.advice}" if finding.advice else finding.message
    place = run.place(document, finding.span)
    return _diagnostic(run, document, place, finding.code, text, SEVERITIES[level(finding)])


def _change(run: Run, document: Document, change: Change) -> dict[str, Any]:
    assert document.outcome is not None
    place = run.place(document, change.spans[0])
    source = document.outcome.source
    suggestions = [
        {"range": _range(run, document, extent(source, edit)), "text": edit.text}
        for edit in fix(document, change)
    ]
    found = _diagnostic(run, document, place, change.code, change.message, "INFO")
    return {**found, "suggestions": suggestions}


def _diagnostic(
    run: Run, document: Document, place: Place, code: str, text: str, severity: str
) -> dict[str, Any]:
    return {
        "message": text,
        "location": {"path": run.path(document), "range": _range(run, document, place)},
        "severity": severity,
        "code": {"value": code},
    }


def _range(run: Run, document: Document, place: Place) -> dict[str, Any]:
    ends = (place.line, place.column), (place.end_line, place.end_column)
    start, end = ({"line": line, "column": _bytes(run, document, line, column)} for line, column in ends)
    return {"start": start, "end": end}


def _bytes(run: Run, document: Document, line: int, column: int) -> int:
    """A column in characters as one in bytes."""
    text = run.line(document, Place(line, 1, line, 1))
    return len(text[: column - 1].encode("utf-8", "replace")) + max(0, column - 1 - len(text)) + 1
