"""Which parts of a migration become suggestions on the lines of a pull request. Pure.

Limits of GitHub's ``POST /repos/{owner}/{repo}/pulls/{number}/reviews``: the lines of a comment lie in one
hunk, and ``start_line`` stands before ``line``. A group is suggested whole or not at all.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xla_migrate import escape
from xla_migrate.bot.forge import Ranges, Suggestion
from xla_migrate.bot.report import Block, File, Group, Report

LONGEST = 100
"""Lines that one suggestion replaces at most, and those that it writes."""
LARGEST = 20_000
"""Bytes that one suggestion writes at most."""
MOST_REASONS = 8
_MARK = re.compile(r"<!-- xla-migrate:suggestion ([0-9a-f]{16}) -->")


@dataclass(frozen=True)
class Part:
    """The suggestions of one group by the bodies that they are posted with; those that stand already are not
    among them. ``changes`` are those of the file that the whole group makes."""

    path: str
    changes: frozenset[int]
    suggestions: Mapping[str, Suggestion]


def plan(report: Report, ranges: Ranges, posted: Iterable[str], most: int) -> list[Part]:
    """The review of a report, at most ``most`` suggestions. ``posted`` are the bodies of suggestions of ours
    that still stand on a line: they count as made and are not repeated."""
    known = {found[1] for body in posted for found in [_MARK.search(body)] if found}
    parts: list[Part] = []
    for file in report.files:
        occurrences: Counter[str] = Counter()
        for group in _suggested(file, ranges):
            made = _made(file, group, occurrences)
            fresh = {body: one for body, one in made.items() if _key(body) not in known}
            if made and sum(len(part.suggestions) for part in parts) + len(fresh) <= most:
                parts.append(Part(file.path, frozenset(group.changes), fresh))
    return parts


def covered(parts: Iterable[Part], file: File) -> frozenset[int]:
    """The changes of a file that these parts make."""
    return frozenset().union(*(part.changes for part in parts if part.path == file.path))


def _suggested(file: File, ranges: Ranges) -> Iterator[Group]:
    """What may be applied with one press of a button, and can be shown: safe changes within the hunks."""
    if file.failed or any(change.safety != "safe" for change in file.changes):
        return
    hunks = ranges.get(file.path, ())
    for group in file.groups:
        if all(_fits(block) and _shown(block, hunks) for block in group.blocks):
            yield group


def _shown(block: Block, hunks: Sequence[range]) -> bool:
    return any(block.start in lines and block.end in lines for lines in hunks)


def _fits(block: Block) -> bool:
    size = sum(len(line.encode()) + 1 for line in block.lines)
    return max(block.end - block.start + 1, len(block.lines)) <= LONGEST and size <= LARGEST


def _made(file: File, group: Group, occurrences: Counter[str]) -> dict[str, Suggestion]:
    note = "<br>".join(_reasons(file, group))
    lines = [f"{b.start}" if b.start == b.end else f"{b.start}-{b.end}" for b in group.blocks]
    if len(lines) > 1:
        shown = ", ".join(lines[:40]) + (" and more" if len(lines) > 40 else "")
        note += f"<br>**Only together:** commit it in one batch with all suggestions at lines {shown}."
    made = {}
    for block in group.blocks:
        text = "\n".join(block.lines) if block.lines else None
        occurrences[str(text)] += 1
        suggestion = Suggestion(file.path, block.start, block.end, text, note)
        made[_body(suggestion, occurrences[str(text)])] = suggestion
    return made


def _reasons(file: File, group: Group) -> Iterator[str]:
    """Each rule once, with the message of its first change."""
    first = {file.changes[number].code: file.changes[number] for number in reversed(group.changes)}
    for code in sorted(first)[:MOST_REASONS]:
        yield f"{code} {escape.inline(first[code].name)}: {escape.inline(first[code].message, 300)}"
    if len(first) > MOST_REASONS:
        yield f"and {len(first) - MOST_REASONS} more rules"


def _body(suggestion: Suggestion, occurrence: int) -> str:
    """The mark tells it from others wherever lines move to: by its text, and which one of such it is."""
    text = "" if suggestion.text is None else f"{suggestion.text}\n"
    key = hashlib.sha256(f"{suggestion.path}\0{occurrence}\0{text}".encode()).hexdigest()[:16]
    return f"{suggestion.note}\n\n{escape.fenced(text, 'suggestion')}\n<!-- xla-migrate:suggestion {key} -->"


def _key(body: str) -> str:
    found = _MARK.search(body)
    return found[1] if found else ""
