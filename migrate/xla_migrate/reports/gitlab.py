"""The code quality report of GitLab.

Source: GitLab's documentation, "Code Quality report format". It compares two reports by the
fingerprints of their entries: these must not change when a line moves, and never occur twice.
"""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from xla_migrate.reports.run import Run, level
from xla_transforms.findings import Severity, Span

if TYPE_CHECKING:
    from xla_migrate.documents import Document

SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info"}


def report(run: Run) -> str:
    """A JSON list: an entry for each finding and for each change that is not written."""
    seen: Counter[str] = Counter()
    found = [
        _entry(run, document, finding.code, finding.span, finding.message, SEVERITIES[level(finding)], seen)
        for document, finding in run.findings
    ]
    found += [
        _entry(run, document, change.code, change.spans[0], change.message, "info", seen)
        for document, change in run.pending
    ]
    return json.dumps(found, indent=2) + "\n"


def _entry(
    run: Run, document: Document, code: str, span: Span, message: str, severity: str, seen: Counter[str]
) -> dict[str, Any]:
    place = run.place(document, span)
    path = run.path(document)
    kind = "\0".join((path, code, message, run.line(document, place).strip()))
    seen[kind] += 1
    return {
        "description": message,
        "check_name": f"{code} {run.rules[code].name}" if code in run.rules else code,
        "fingerprint": sha256(f"{kind}\0{seen[kind]}".encode("utf-8", "backslashreplace")).hexdigest(),
        "severity": severity,
        "location": {"path": path, "lines": {"begin": place.line, "end": place.end_line}},
    }
