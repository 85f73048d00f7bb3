"""The report for programs. Its ``version`` grows when a field goes or changes its meaning."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xla_migrate import __version__
from xla_transforms.findings import Change, Finding, Rule, Severity, Span

if TYPE_CHECKING:
    from xla_migrate.documents import Document
    from xla_migrate.releases import Choice

VERSION = 1


def report(documents: Sequence[Document], target: Choice, exit_code: int) -> str:
    """One JSON object: ``files``, ``findings``, ``changes`` and ``summary``.

    Lines and columns count from 1 and belong to the file as it was read; an ``end_column`` is that
    of the character behind.
    """
    findings = [_finding(d.path, finding) for d in documents for finding in d.findings]
    changes = [
        _change(d.path, change) for d in documents if d.outcome for change in d.outcome.changes
    ]
    content = {
        "version": VERSION,
        "tool": {"name": "xla-migrate", "version": __version__},
        "target": target.target,
        "target_reason": target.reason,
        "files": [{"path": d.path, "status": status(d)} for d in documents],
        "findings": findings,
        "changes": changes,
        "summary": _summary(documents, exit_code),
    }
    return json.dumps(content, indent=2) + "\n"


def rules_report(rules: Sequence[Rule]) -> str:
    """A JSON list of rules."""
    return json.dumps([rule_fields(rule) for rule in rules], indent=2) + "\n"


def rule_fields(rule: Rule) -> dict[str, str]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.label,
        "safety": rule.safety.value,
        "summary": rule.summary,
        "why": rule.why,
    }


def status(document: Document) -> str:
    """``failed``, ``written``, ``pending`` (would change) or ``unchanged``."""
    if document.failed:
        return "failed"
    if not document.changed:
        return "unchanged"
    return "written" if document.written else "pending"


def _finding(path: str, finding: Finding) -> dict[str, Any]:
    return {
        "path": path,
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.label,
        **_place(finding.span),
        "message": finding.message,
        "advice": finding.advice,
        "fixed": finding.fixed,
    }


def _change(path: str, change: Change) -> dict[str, Any]:
    return {
        "path": path,
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


def _summary(documents: Sequence[Document], exit_code: int) -> dict[str, Any]:
    states = [status(document) for document in documents]
    found = [finding for document in documents for finding in document.findings]
    return {
        "files": len(documents),
        **{state: states.count(state) for state in ("unchanged", "pending", "written", "failed")},
        "changes": sum(len(d.outcome.changes) for d in documents if d.outcome),
        "findings": {s.label: sum(f.severity is s for f in found) for s in Severity},
        "fixed": sum(finding.fixed for finding in found),
        "exit_code": exit_code,
    }
