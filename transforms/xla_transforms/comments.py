"""The comments of a text, and which of them outlive the code that they stand in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

LITERAL_OR_COMMENT = re.compile(
    r'"""(?:\\[\s\S]|[^\\])*?"""'
    r"|'''(?:\\[\s\S]|[^\\])*?'''"
    r'|"(?:\\[\s\S]|[^"\\\n])*"'
    r"|'(?:\\[\s\S]|[^'\\\n])*'"
    r"|\#[^\r\n]*"
)
# Said to a tool about the code of one line: wrong, or for the whole file, on a line of its own.
_PRAGMA = re.compile(
    r"#\s*(?:noqa|nosec|type:|(?:xla-migrate|pylint|pyright|mypy|ruff|pragma|fmt|yapf|isort):)", re.IGNORECASE
)
# What ends or starts a part of a file: a cell, a region, the reach of a comment to a tool.
_DIVISION = re.compile(
    r"#\s*(?:%%|In\s?\[|(?:end)?region\b|(?:fmt|isort|yapf|xla-migrate):.*(?:on|end)\b)"
)


def divides(comment: str) -> bool:
    """Whether a comment parts what stands above it from what stands below."""
    return _DIVISION.match(comment) is not None


def comments(text: str) -> list[tuple[int, str]]:
    """Offset and text of every comment, trailing blanks aside; the text may be a piece of a module."""
    if "#" not in text:
        return []
    found = LITERAL_OR_COMMENT.finditer(text)
    return [(match.start(), match.group().rstrip()) for match in found if match.group()[0] == "#"]


def is_pragma(comment: str) -> bool:
    """Whether a comment speaks to a linter, a type checker or a formatter about the code beside it."""
    return _PRAGMA.match(comment) is not None


def lost(before: Iterable[str], after: str) -> list[str]:
    """The comments of ``before`` that a text does not have (as often), in their order, pragmas aside."""
    kept = Counter(comment for _, comment in comments(after))
    found: list[str] = []
    for comment in before:
        if kept[comment]:
            kept[comment] -= 1
        elif not is_pragma(comment):
            found.append(comment)
    return found
