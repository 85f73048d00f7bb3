"""The report for programs. ``report.schema.json`` describes it; docs/report.md tells what the fields mean.

Its ``version`` grows when a field goes or changes its meaning, not when one is added.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from xla_migrate import __version__
from xla_migrate.reports.run import Run, status
from xla_transforms.findings import Change, Finding, Severity, Span

if TYPE_CHECKING:
    from xla_migrate.documents import Document

VERSION = 1


def report(run: Run) -> str:
    """One JSON object: ``files``, ``findings``, ``changes`` and ``summary``.

    Lines and columns count from 1 and belong to the file as it was read; an ``end_column`` is that
    of the character behind.
    """
    changes = [(d, change) for d in run.documents if d.outcome for change in d.outcome.changes]
    content = {
        "version": VERSION,
        "tool": {"name": "xla-migrate", "version": __version__},
        "target": run.target.target,
        "target_reason": run.target.reason,
        "files": [{"path": d.path, "status": status(d)} for d in run.documents],
        "findings": [_finding(document, finding) for document, finding in run.findings],
        "changes": [_change(document, change) for document, change in changes],
        "left_out": [
            {**_change(document, one.change), "reason": one.reason.because.value, "needed": one.needed}
            for document in run.documents
            for one in document.left_out
        ],
        "summary": _summary(run, len(changes)),
    }
    return json.dumps(content, indent=2) + "\n"


def schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) that every report fits."""
    text = files("xla_migrate.reports").joinpath("report.schema.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def _finding(document: Document, finding: Finding) -> dict[str, Any]:
    return {
        "path": document.path,
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.label,
        **_place(finding.span),
        "message": finding.message,
        "advice": finding.advice,
        "fixed": finding.fixed,
    }


def _change(document: Document, change: Change) -> dict[str, Any]:
    return {
        "path": document.path,
        "id": change.id,
        "code": change.code,
        "name": change.name,
        "message": change.message,
        "safety": change.safety.value,
        "spans": [_place(span) for span in change.spans],
    }


def _place(span: Span) -> dict[str, int]:
    return {
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


def _summary(run: Run, changes: int) -> dict[str, Any]:
    states = [status(document) for document in run.documents]
    found = [finding for _, finding in run.findings]
    return {
        "files": len(run.documents),
        **{state: states.count(state) for state in ("unchanged", "pending", "written", "failed")},
        "changes": changes,
        "findings": {s.label: sum(f.severity is s for f in found) for s in Severity},
        "fixed": sum(finding.fixed for finding in found),
        "unsafe_waiting": run.waiting,
        "exit_code": run.exit_code,
    }
