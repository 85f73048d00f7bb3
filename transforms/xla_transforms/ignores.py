"""Comments by which a script says what is to be left alone: ``# xla-migrate: ignore[XLA301] reason``.

``ignore`` holds for the statement (of a compound one, the head) that it stands in or behind; alone on a line,
for the next one.
``ignore-start`` holds from its line to ``ignore-end`` (of the same rules), ``ignore-file`` for the file, and
``ignore-cell`` for the cell of a notebook. Without rules in brackets all are meant.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field

from xla_transforms.comments import comments
from xla_transforms.findings import Span

_COMMENT = re.compile(
    r"#\s*xla-migrate:\s*ignore\b(?P<kind>-\w+)?(?:\s*\[(?P<rules>[^\]]*)\])?\s*(?P<reason>.*)"
)
_BETWEEN = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_END = sys.maxsize


@dataclass
class Ignore:
    """One comment. ``rules`` are the codes, names or beginnings of codes that it gives, none for all;
    it holds for what begins from the offset ``start`` on and before ``end``. ``used`` tells whether it hid
    something."""

    span: Span
    kind: str
    rules: tuple[str, ...]
    reason: str
    start: int
    end: int
    used: bool = field(default=False, compare=False)

    def hides(self, span: Span, code: str, name: str) -> bool:
        """Whether it holds for what a rule says of a piece of the text."""
        meant = not self.rules or any(is_named(code, name, one) for one in self.rules)
        return meant and self.start <= span.start < self.end


def spares(text: str, span: Span) -> bool:
    """Whether a comment keeps every rule from a piece of a script."""
    return any(one.start <= span.start < one.end for one in ignores(text) if not one.rules)


def is_named(code: str, name: str, selector: str) -> bool:
    """Whether a selector means a rule: ``XLA301``, ``XLA3``, ``autocast``, or ``ALL``."""
    wanted = selector.strip().upper()
    return wanted == "ALL" or wanted == name.upper() or (wanted.startswith("XLA") and code.startswith(wanted))


def ignores(text: str) -> list[Ignore]:
    """The comments of a script that tell the tool what to leave alone, in their order."""
    if "xla-migrate:" not in text:
        return []
    lines = logical_lines(text)
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found: list[Ignore] = []
    for offset, comment in comments(text):
        match = _COMMENT.search(comment)
        if match is not None:
            span = _span(text, offset + match.start(), match.group())
            first, last = next((pair for pair in lines if pair[1] >= span.line), (span.line, span.line))
            reach = starts[first - 1], [*starts, _END][last]
            found += _ignore(found, match, span, reach)
    return found


def loose_ignores(text: str) -> list[Ignore]:
    """The comments of a cell that is no Python, on lines of their own; each holds for all of it."""
    found: list[Ignore] = []
    for match in _COMMENT.finditer(text):
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if not before.strip():
            span = _span(text, match.start(), match.group())
            found.append(Ignore(span, "cell", _named(match), match["reason"].strip(), 0, _END))
    return found


def logical_lines(text: str) -> list[tuple[int, int]]:
    """First and last line of each simple statement and of each head of a compound one."""
    found: list[tuple[int, int]] = []
    first = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NEWLINE and first is not None:
                found.append((first, token.start[0]))
                first = None
            elif first is None and token.type not in _BETWEEN:
                first = token.start[0]
    except (tokenize.TokenError, SyntaxError):
        pass  # what was found so far
    return found


def _ignore(
    found: list[Ignore], match: re.Match[str], span: Span, reach: tuple[int, int]
) -> Iterator[Ignore]:
    """What a comment says; ``reach`` is the line or the statement that it stands at."""
    kind, rules = (match["kind"] or "").lstrip("-"), _named(match)
    opened = [one for one in found if one.kind == "start" and one.rules == rules and one.end == _END]
    if kind == "end" and opened:
        opened[-1].end = span.end
        return
    if kind == "file":
        reach = 0, _END
    elif kind == "start":
        reach = span.start - span.column + 1, _END
    elif kind:
        reach = _END, _END  # of nothing here
    yield Ignore(span, kind, rules, match["reason"].strip(), *reach)


def _named(match: re.Match[str]) -> tuple[str, ...]:
    return tuple(part.strip() for part in (match["rules"] or "").split(",") if part.strip())


def _span(text: str, offset: int, comment: str) -> Span:
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    return Span(offset, offset + len(comment), line, column, line, column + len(comment))
