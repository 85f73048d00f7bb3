"""The report as one HTML page: summary, the result of ``verify``, findings, the diff side by side.

It works without network and script; all that unfolds or scrolls is reached with the keyboard.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from xla_migrate import __version__
from xla_migrate.reports import charts, summary
from xla_migrate.reports.pages import template
from xla_migrate.reports.run import Run
from xla_migrate.reports.terminal import count
from xla_transforms.findings import Finding, Severity

if TYPE_CHECKING:
    from xla_migrate.diff import Row
    from xla_migrate.documents import Document

Fields = dict[str, Any]
Piece = tuple[str, bool]
"""A part of a line, and whether it differs from the line beside it."""

ALIKE = 0.4
"""Lines less alike than this are shown as two lines, without a look at their parts."""

CLASSES = {"equal": "equal", "equal within tolerance": "within", "diverged": "diverged"}


def report(run: Run) -> str:
    """The whole page."""
    files = [_file(run, document, number) for number, document in enumerate(run.changed, 1)]
    anchors = {file["document"].path: file["anchor"] for file in files}
    content = {
        "version": __version__,
        "title": summary.sentence(run),
        "target": run.target,
        "failed": [(d.path, f.message) for d in run.documents if d.failed for f in d.findings],
        "figures": list(_figures(run)),
        "rules": list(_rules(run)),
        "findings": [_finding(run, d, f, anchors) for d, f in _by_severity(run)],
        "files": files,
        "verified": _verified(run.verified) if run.verified is not None else None,
    }
    return template("page.html.j2").render(content)


def _figures(run: Run) -> Iterator[tuple[str, str]]:
    """The numbers at the top."""
    changes = [change for d in run.changed if d.outcome for change in d.outcome.changes]
    yield "Files changed" if run.applies else "Files to change", f"{len(run.changed)} of {len(run.documents)}"
    yield "Changes", str(len(changes))
    for severity in reversed(Severity):
        found = sum(finding.severity is severity for _, finding in run.findings)
        yield severity.label.capitalize() + ("" if severity is Severity.INFO else "s"), str(found)


def _rules(run: Run) -> Iterator[Fields]:
    changes = Counter(change.code for d in run.done if d.outcome for change in d.outcome.changes)
    found = Counter(finding.code for _, finding in run.findings)
    for code in sorted(changes | found):
        yield {"rule": run.rules.get(code), "code": code, "changes": changes[code], "findings": found[code]}


def _by_severity(run: Run) -> list[tuple[Document, Finding]]:
    return sorted(run.findings, key=lambda pair: -pair[1].severity)


def _finding(run: Run, document: Document, finding: Finding, anchors: Mapping[str, str]) -> Fields:
    place = run.place(document, finding.span)
    return {
        "place": f"{run.path(document)}:{run.where(document, finding.span)}",
        "anchor": anchors.get(document.path),
        "severity": finding.severity.label,
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "advice": finding.advice,
        "fixed": finding.fixed,
        "line": run.line(document, place).strip(),
    }


def _file(run: Run, document: Document, number: int) -> Fields:
    from xla_migrate.diff import side_by_side

    outcome = document.outcome
    assert outcome is not None
    pieces = side_by_side(outcome.source, outcome.code, outcome.edits)
    return {
        "document": document,
        "anchor": f"file-{number}",
        "path": run.path(document),
        "changes": count(len(outcome.changes), "change"),
        "pieces": [[_row(row) for row in rows] for rows in pieces],
    }


def _row(row: Row) -> Fields:
    before, after = _parts(row)
    numbers = {"old": row.line_before, "new": row.line_after}
    return {**numbers, "before": before, "after": after, "changed": row.changed}


def _parts(row: Row) -> tuple[list[Piece], list[Piece]]:
    """Both sides in parts, those marked that differ."""
    before, after = (text and text.rstrip("\r\n") for text in (row.before, row.after))
    if not row.changed or before is None or after is None:
        return [(before or "", False)], [(after or "", False)]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if max(len(before), len(after)) > 400 or matcher.ratio() < ALIKE:
        return [(before, False)], [(after, False)]
    found: tuple[list[Piece], list[Piece]] = [], []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        found[0].append((before[i1:i2], tag != "equal"))
        found[1].append((after[j1:j2], tag != "equal"))
    return found


def _verified(found: Mapping[str, Any]) -> Fields:
    """What a report of ``verify`` says, with its plots."""
    losses = found.get("losses") or []
    compared = [one for one in losses if one["difference"] is not None]
    performance = found.get("performance") or {}
    by_step = [_numbers(performance.get(f"{what}_by_step")) for what in ("executions", "compilations")]
    plots = [
        charts.losses(_column(losses, "native"), _column(losses, "migrated")),
        charts.loss_difference(
            [one["number"] for one in compared], _column(compared, "difference"), _column(compared, "bound")
        ),
    ]
    return {
        "outcome": str(found["outcome"]),
        "outcome_class": CLASSES.get(str(found["outcome"]), "not-comparable"),
        "headline": str(found.get("headline", "")),
        "problems": performance.get("problems") or [],
        "plots": plots if losses else [],
        "cost_plots": charts.costs(*by_step) if any(by_step) else [],
    }


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> list[float | None]:
    numbers = _numbers([row[name] for row in rows])
    return numbers if any(number is not None for number in numbers) else []


def _numbers(found: Sequence[Any] | None) -> list[float | None]:
    """Numbers of a JSON report, in which those that are not finite are words."""
    return [None if number is None else _number(number) for number in found or ()]


def _number(found: Any) -> float:
    try:
        return float(found)
    except (TypeError, ValueError):
        return math.nan
