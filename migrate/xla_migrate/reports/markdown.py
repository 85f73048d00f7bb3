"""Markdown that fits into a comment on a pull request, whatever the files are called and contain.

What comes from the files stands in code, where nothing is a mention, a reference, a link or HTML; texts of
the tool, which may quote the files, are escaped. Source: GitHub's documentation (a body has at most 65,536
characters).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xla_migrate.escape import code, fenced, inline, path
from xla_migrate.reports import summary
from xla_migrate.reports.run import Run
from xla_migrate.reports.terminal import count, shown
from xla_transforms.findings import Finding, Safety

if TYPE_CHECKING:
    from xla_migrate.documents import Document

LIMIT = 65_000
"""Characters of a report; a little is left for what a program may add to it."""
_LONGEST = 2_000  # characters of one text

# From all of it to the counts alone: how many findings are told, lines around a change, characters of diffs.
_LADDER: tuple[tuple[int | None, int, int], ...] = (
    (None, 3, LIMIT), (None, 1, LIMIT), (None, 1, 30_000), (200, 1, 10_000), (50, 1, 0), (0, 1, 0),
)  # fmt: skip


def report(run: Run) -> str:
    """Counts by rule, the result of ``verify``, findings and the diff; less of these where it is too long."""
    for findings, context, room in _LADDER:
        text = "\n".join(_parts(run, findings, context, room))
        if len(text.encode("utf-16-le", "surrogatepass")) // 2 <= LIMIT:
            return text
    return f"### xla-migrate\n\n{inline(summary.sentence(run), _LONGEST)}\n"


def _parts(run: Run, findings: int | None, context: int, room: int) -> Iterator[str]:
    yield f"### xla-migrate\n\n{inline(summary.sentence(run), _LONGEST)}\n"
    if run.target.reason:
        yield f"Target {code(run.target.target)}: {inline(run.target.reason)}\n"
    yield from _verified(run.verified)
    yield from _rules(run)
    yield from _findings(run, findings)
    yield from _diffs(run, context, room)


def _verified(found: Mapping[str, Any] | None) -> Iterator[str]:
    if found is not None:
        headline = inline(str(found.get("headline", "")), _LONGEST)
        yield f"**verify: {inline(str(found['outcome']))}.** {headline}\n"


def _rules(run: Run) -> Iterator[str]:
    """How often each rule changed something, and how often it has something to say."""
    changes = Counter(change.code for d in run.done if d.outcome for change in d.outcome.changes)
    found = Counter(finding.code for _, finding in run.findings)
    if changes or found:
        rows = ["| rule | safety | changes | findings |", "| --- | --- | ---: | ---: |"]
        for name in sorted(changes | found):
            rule = run.rules.get(name)
            title, safety = (rule.name, rule.safety) if rule else ("", Safety.DISPLAY)
            rows.append(f"| {name} {title} | {safety.value} | {changes[name] or ''} | {found[name] or ''} |")
        yield "\n".join(rows) + "\n"


def _findings(run: Run, limit: int | None) -> Iterator[str]:
    found = sorted(run.findings, key=lambda pair: -pair[1].severity)
    kept = found if limit is None else found[:limit]
    if found:
        yield "#### Findings\n"
    yield from (_finding(run, document, finding) for document, finding in kept)
    if len(kept) < len(found):
        yield f"- {count(len(found) - len(kept), 'more finding')} left out here\n"
    elif found:
        yield ""


def _finding(run: Run, document: Document, finding: Finding) -> str:
    place = run.place(document, finding.span)
    head = f"- **{finding.severity.label}** {finding.code} {path(f'{run.path(document)}:{place.line}')}"
    advice = f"  \n  {inline(finding.advice, _LONGEST)}" if finding.advice else ""
    return f"{head} {inline(finding.message, _LONGEST)}{' (done)' if finding.fixed else ''}{advice}"


def _diffs(run: Run, context: int, room: int) -> Iterator[str]:
    """The diffs of as many files as there is room for, each whole, in a block that unfolds."""
    from xla_migrate.diff import text_diff

    kept: list[str] = []
    for document in run.changed:
        outcome = document.outcome
        assert outcome is not None
        parts = outcome.source, outcome.code, outcome.edits
        diff = text_diff(*parts, run.patch_name(document), context)
        room -= len(diff)
        kept += [diff] if room >= 0 else []
    if kept:
        yield _folded(kept)
    if len(kept) < len(run.changed):
        yield f"The diff of {count(len(run.changed) - len(kept), 'file')} is left out here.\n"


def _folded(diffs: Sequence[str]) -> str:
    lines = "".join(diffs).replace("\r\n", "\n").split("\n")[:-1]
    text = "".join(f"{shown(line)}\n" for line in lines)
    head = f"<details><summary>Diff of {count(len(diffs), 'file')}</summary>"
    return f"{head}\n\n{fenced(text, 'diff')}\n\n</details>\n"
