"""Outcomes as plain data, for other processes and for a file, and back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict
from typing import Any

from xla_transforms.edits import apply
from xla_transforms.findings import Change, Edit, Finding, Safety, Severity, Span
from xla_transforms.outcome import Outcome

Record = dict[str, Any]
Narrow = Callable[[Collection[int]], Outcome]


def record(outcome: Outcome) -> Record:
    """An outcome as plain data, without the bytes and the text of its file."""
    return {
        "encoding": outcome.encoding,
        "failed": outcome.failed,
        "edits": [[edit.start, edit.end, edit.text] for edit in outcome.edits],
        "changes": [asdict(change) for change in outcome.changes],
        "findings": [asdict(finding) for finding in outcome.findings],
    }


def outcome_of(path: str, data: bytes, found: Record, narrow: Narrow) -> Outcome:
    """The outcome of a file again. Raises ``ValueError``, ``KeyError`` or ``TypeError`` for no record."""
    text = data.decode("utf-8", "replace") if found["failed"] else data.decode(found["encoding"])
    edits = tuple(Edit(start, end, new) for start, end, new in found["edits"])
    return Outcome(
        path=path,
        original=data,
        source=text,
        code=apply(text, edits),
        encoding=found["encoding"],
        changes=tuple(map(_change, found["changes"])),
        findings=tuple(map(_finding, found["findings"])),
        edits=edits,
        failed=found["failed"],
        _narrower=narrow if edits else None,
    )


def _change(fields: Record) -> Change:
    spans = tuple(Span(**span) for span in fields["spans"])
    return Change(**{**fields, "safety": Safety(fields["safety"]), "spans": spans})


def _finding(fields: Record) -> Finding:
    return Finding(**{**fields, "severity": Severity(fields["severity"]), "span": Span(**fields["span"])})
