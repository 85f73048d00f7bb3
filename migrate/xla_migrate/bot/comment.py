"""The one comment on a pull request, and the check. Pure: a report in, texts within the forge's limits out.

GitHub refuses comments and summaries of more than 65,536 characters. What does not fit goes in this order:
diffs of whole files (the last ones first), findings, files, rules; what was left out is said.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from xla_migrate import escape
from xla_migrate.bot.forge import Annotation, Check
from xla_migrate.bot.report import File, Finding, Report, write
from xla_migrate.bot.review import Part, covered
from xla_migrate.bot.settings import FailOn

NAME = "xla-migrate"
MOST_FINDINGS, MOST_FILES, MOST_RULES, MOST_ANNOTATIONS = 50, 100, 100, 500
_MARK = re.compile(r"^<!-- xla-migrate:comment (?:([0-9a-f]{40,64}) )?-->")
_NOTE = "<!-- xla-migrate:note -->"
_RANKS: tuple[Literal["error", "warning", "info"], ...] = ("error", "warning", "info")
_PLURAL = {"error": "s", "warning": "s", "info": ""}
_SAFETY: dict[Literal["safe", "unsafe", "display"], str] = {
    "safe": "safe",
    "unsafe": "may change behaviour",
    "display": "shown only",
}
_LEVELS = {"error": "failure", "warning": "warning", "info": "notice"}


def is_ours(body: str) -> bool:
    """Whether this is the comment that is kept up to date."""
    return _MARK.match(body) is not None


def head_of(body: str) -> str:
    """The commit whose report the comment holds; empty where it holds none."""
    found = _MARK.match(body)
    return (found[1] or "") if found else ""


def body(report: Report, parts: Sequence[Part], limit: int, *, ref: str, apply: bool, note: str = "") -> str:
    """The comment on a report, at most ``limit`` bytes (so at most as many characters).

    ``parts`` are the suggestions that stand on the lines; ``note`` is a line of Markdown of our own;
    ``apply`` says whether the command is offered, ``ref`` is what git fetches the head by.
    """
    fixed = [f"<!-- xla-migrate:comment {report.head} -->", f"### {headline(report)}"]
    noted = f"{note} {_NOTE}" if note else ""
    fixed += [line for line in (noted, _where(report), *_problems(report), *_verdict(report)) if line]
    ends = [_reproduce(report, ref), *([_offer()] if apply and report.changed else [])]
    sections = [*_rules(report), *_files(report, parts), *_findings(report)]
    room = limit - _size([*fixed, *ends]) - 300
    kept = []
    for section in sections:
        if _size([section]) <= room:
            kept.append(section)
            room -= _size([section])
    diffs = "\n\n".join(_diffs([f for f in report.changed if not _is_covered(f, parts)], room))
    return "\n\n".join([*fixed, *kept, *([diffs] if diffs else []), *ends]) + "\n"


def with_note(text: str, note: str, limit: int) -> str:
    """The same comment with a note below its headline, in the place of an earlier one."""
    lines = [line for line in text.split("\n") if not line.endswith(_NOTE)]
    place = next((n for n, line in enumerate(lines) if line.startswith("### ")), len(lines) - 1) + 1
    noted = "\n".join([*lines[:place], f"{note} {_NOTE}", *lines[place:]])
    return noted if len(noted.encode()) <= limit else text


def failure(head: str, reason: str) -> str:
    """The comment where there is no report on a commit; ``reason`` is escaped here."""
    mark = f"<!-- xla-migrate:comment {head} -->"
    return f"{mark}\n\n### {NAME} could not look at this pull request\n\n{escape.inline(reason, 1000)}\n"


def headline(report: Report) -> str:
    changes, files = sum(len(file.changes) for file in report.changed), len(report.changed)
    if not files:
        return f"{NAME}: nothing to migrate"
    return f"{NAME}: {_count(changes, 'change')} in {_count(files, 'file')} to train on PyTorch/XLA"


def check(
    report: Report, parts: Sequence[Part], limit: int, *, ref: str, fail_on: FailOn, apply: bool
) -> Check:
    """The state of the commit; annotations are the findings, those that matter most first."""
    wrong = report.errors > 0 or any(file.failed for file in report.files)
    failed = (fail_on != "never" and wrong) or (fail_on == "changes" and bool(report.changed))
    pending = bool(report.changed) or wrong or bool(report.problems)
    text = body(report, parts, limit, ref=ref, apply=False)
    return Check(
        head=report.head,
        key=hashlib.sha256(write(report)).hexdigest()[:20],
        conclusion="failure" if failed else "neutral" if pending else "success",
        title=headline(report)[:200],
        summary=text,
        annotations=tuple(islice(_annotations(report), MOST_ANNOTATIONS)),
        offers_apply=apply and bool(report.changed),
    )


def _annotations(report: Report) -> Iterator[Annotation]:
    for file, finding in _ranked(report):
        message = finding.message + (f"\n{finding.advice}" if finding.advice else "")
        title = f"{finding.code} {finding.name}"
        lines = finding.line, finding.end_line
        yield Annotation(file.path, *lines, _LEVELS[finding.severity], title[:200], message[:4000])  # type: ignore[arg-type]


def _ranked(report: Report) -> list[tuple[File, Finding]]:
    found = [(file, finding) for file in report.files for finding in file.findings]
    return sorted(found, key=lambda pair: _RANKS.index(pair[1].severity))


def _is_covered(file: File, parts: Sequence[Part]) -> bool:
    return len(covered(parts, file)) == len(file.changes)


def _where(report: Report) -> str:
    counts = Counter(finding.severity for file in report.files for finding in file.findings)
    told = ", ".join(_count(counts[rank], rank, _PLURAL[rank]) for rank in _RANKS if counts[rank])
    files, findings = _count(report.examined, "file"), told or "no findings"
    suggested = " What stands on the lines as suggestions is not repeated here." if report.changed else ""
    return (
        f"At <code>{report.head[:12]}</code>, for target {escape.code(report.target, 40)}: "
        f"{files} examined; {findings}.{suggested}"
    )


def _problems(report: Report) -> Iterator[str]:
    shown = [f"- {escape.inline(problem)}" for problem in report.problems[:20]]
    if shown:
        yield "**To look at:**\n" + "\n".join(shown)


def _verdict(report: Report) -> Iterator[str]:
    if report.verdict is not None:
        signs = {"equal": "same training", "within tolerance": "same training, within rounding"}
        outcome = signs.get(report.verdict.outcome, report.verdict.outcome)
        command = escape.fenced(escape.visible(report.verdict.command, 2000), "sh")
        reason = escape.inline(report.verdict.reason, 1000)
        yield f"**Native run against migrated run: {outcome}.** {reason}\n\n{command}"


def _rules(report: Report) -> Iterator[str]:
    counts = Counter((c.code, c.name, c.safety) for file in report.changed for c in file.changes)
    if not counts:
        return
    rows = [
        f"| {code} {escape.inline(name, 80)} | {_SAFETY[safety]} | {count} |"
        for (code, name, safety), count in sorted(counts.items())
    ]
    by_safety = Counter(c.safety for file in report.changed for c in file.changes)
    total = ", ".join(f"{_count(by_safety[s], 'change')} {_SAFETY[s]}" for s in _SAFETY if by_safety[s])
    head = "| rule | safety | changes |\n| --- | --- | ---: |"
    yield _table(f"Changes by rule: {total}", head, rows, MOST_RULES)


def _files(report: Report, parts: Sequence[Part]) -> Iterator[str]:
    rows = []
    for file in sorted(report.files, key=lambda file: not file.changes):
        made = len(covered(parts, file))
        state = f"{made} of {len(file.changes)}" if file.changes else ""
        state = "could not be processed" if file.failed else state
        rows.append(f"| {escape.path(file.path)} | {len(file.changes)} | {state} | {len(file.findings)} |")
    if rows:
        head = "| file | changes | as suggestions | findings |\n| --- | ---: | --- | ---: |"
        yield _table(f"Files: {len(rows)}", head, rows, MOST_FILES)


def _findings(report: Report) -> Iterator[str]:
    rows = []
    for file, finding in _ranked(report):
        advice = f"<br>{escape.inline(finding.advice, 300)}" if finding.advice else ""
        place = f"{escape.path(file.path)} {finding.line}"
        what = escape.inline(finding.message, 300) + advice
        rows.append(f"| {finding.severity} | {finding.code} | {place} | {what} |")
    if rows:
        head = "| severity | rule | place | what |\n| --- | --- | --- | --- |"
        yield _table(f"Findings: {len(rows)}", head, rows, MOST_FINDINGS)


def _table(title: str, head: str, rows: Sequence[str], most: int) -> str:
    left = f"\n\n{len(rows) - most} more are not shown." if len(rows) > most else ""
    shown = "\n".join([head, *rows[:most]])
    return f"<details><summary>{title}</summary>\n\n{shown}{left}\n\n</details>"


def _diffs(files: Sequence[File], room: int) -> Iterator[str]:
    """As many diffs as there is room for; none is cut, so that each applies."""
    blocks, left = [], 0
    for file in files:
        block = escape.fenced(file.diff, "diff")
        if _size([block]) <= room:
            blocks.append(block)
            room -= _size([block])
        else:
            left += 1
    if blocks:
        yield "<details><summary>Diff</summary>\n\n" + "\n\n".join(blocks) + "\n\n</details>"
    if left:
        yield f"The diff of {_count(left, 'file')} is too long to be shown; the command prints it."


def _reproduce(report: Report, ref: str) -> str:
    fetch = f"git fetch origin {ref} && git checkout {report.head}"
    lines = f"{fetch}\n{escape.visible(report.command, 2000)}"
    return "To see it on your machine:\n\n" + escape.fenced(lines, "sh")


def _offer() -> str:
    return f"Whoever may push here can have it committed: write <code>/{NAME} apply</code> as a comment."


def _size(texts: Iterable[str]) -> int:
    return sum(len(text.encode()) + 2 for text in texts)


def _count(number: int, word: str, plural: str = "s") -> str:
    return f"{number:,} {word}{'' if number == 1 else plural}"
