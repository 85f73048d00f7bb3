"""Python that Python 3.7 and later refuse: what it is, what to do, and the one thing that is written anew.

``async`` became a keyword in Python 3.7 (PEP 492). PyTorch had renamed the argument of that name before:
``tensor.cuda(async=True)`` is ``non_blocking=True`` since 0.4 (PyTorch 0.4.0, release notes).
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

from xla_transforms import check
from xla_transforms.comments import LITERAL_OR_COMMENT
from xla_transforms.edits import line_edits
from xla_transforms.findings import Finding, Rule, Safety, Severity, Span
from xla_transforms.outcome import Outcome

ASYNC = Rule(
    "XLA014",
    "async-argument",
    "The argument async of a transfer is called non_blocking.",
    "async is a keyword since Python 3.7; PyTorch calls the argument non_blocking (PyTorch 0.4.0).",
)
LEFT = Rule(
    "XLA015",
    "async-argument-left",
    "The argument async of a transfer stays, and with it code that Python 3.7 and later refuse.",
    "async is a keyword since Python 3.7; nothing else changes in the file, which is left as it is.",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (ASYNC, LEFT)

_OLD, _NEW = "async", "non_blocking"
_METHODS = {"cuda", "to", "type", "copy_"}
_ARGUMENT = re.compile(rf"(?:{LITERAL_OR_COMMENT.pattern})|[(,]\s*({_OLD})\s*=(?!=)")
_PYTHON_2 = re.compile(
    r"^\s*(?:print|exec)\s+[^\s=(]|^\s*print\s*>>|\bexcept\s+[\w.()]+\s*,\s*\w+\s*:|\braise\s+[\w.]+\s*,"
    r"|<>|(?<![\w.])0\d+\b|\bur[\"']|`"
)
_CONVERT = "it is Python 2: convert it first (2to3 -w FILE, in Python up to 3.12) and look at its divisions"
_TABS = "Python 2 took a tab for up to 8 columns: expand -i -t 8 FILE gives the same with blanks"
_KEYWORD = "async is a keyword since Python 3.7: rename it (the argument of a transfer is non_blocking)"


def advice(text: str, line: int, message: str) -> str:
    """What to do about a syntax error in a line (from 1), where it is one of old Python."""
    if "tabs and spaces" in message:
        return _TABS
    lines = text.splitlines()[line - 1 : line]
    if "Missing parentheses in call to" in message or any(map(_PYTHON_2.search, lines)):
        return _CONVERT
    return _KEYWORD if any(re.search(rf"\b{_OLD}\b", said) for said in lines) else ""


@dataclass(frozen=True)
class Renamed:
    """A text with ``async=`` of transfers renamed: the text as it was, the new one, and where it says so."""

    before: str
    text: str
    places: tuple[int, ...]  # in the text as it was

    @property
    def starts(self) -> set[int]:
        """Where the argument starts in the new text."""
        added = len(_NEW) - len(_OLD)
        return {place + number * added for number, place in enumerate(self.places)}

    def restored(self, outcome: Outcome) -> Outcome:
        """The outcome of the text as it was, given that of the new one."""
        code = outcome.code if outcome.edits else self.before
        findings = [replace(finding, span=self._span(finding.span)) for finding in outcome.findings]
        changes = [replace(c, spans=tuple(map(self._span, c.spans))) for c in outcome.changes]
        told = () if outcome.failed else self._told(bool(outcome.edits))
        return replace(
            outcome, source=self.before, code=code, edits=tuple(line_edits(self.before, code)),
            findings=tuple(sorted([*findings, *told], key=lambda finding: finding.span)),
            changes=tuple(changes), _narrower=lambda ids: self.restored(outcome.narrow(ids)),
        )  # fmt: skip

    def _told(self, done: bool) -> Iterator[Finding]:
        rule = ASYNC if done else LEFT
        for place in self.places:
            span = self._span_of(place, place + len(_OLD))
            message = "async is non_blocking since PyTorch 0.4, and a keyword since Python 3.7"
            hint = "" if done else f"write {_NEW}=True"
            yield Finding(rule.code, rule.name, rule.severity, message, span, hint, fixed=done)

    def _span(self, span: Span) -> Span:
        if span.end == span.start == 0:  # a failure, which knows its line alone
            return span
        return self._span_of(self._earlier(span.start), self._earlier(span.end))

    def _earlier(self, offset: int) -> int:
        """Where in the text as it was a character of the new one stood."""
        added = len(_NEW) - len(_OLD)
        starts = sorted(self.starts)
        number = bisect_left(starts, offset)
        inside = bool(number) and offset < starts[number - 1] + len(_NEW)
        return self.places[number - 1] if inside else offset - number * added

    def _span_of(self, start: int, end: int) -> Span:
        ends = []
        for offset in (start, end):
            ends += [self.before.count("\n", 0, offset) + 1, offset - self.before.rfind("\n", 0, offset)]
        return Span(start, end, *ends)


def renamed(text: str) -> Renamed | None:
    """A text that is Python but for ``async=`` in calls that transfer; ``None`` for any other."""
    places = [match.start(1) for match in _ARGUMENT.finditer(text) if match[1]] if _OLD in text else []
    if not places:
        return None
    parts, position = [], 0
    for place in places:
        parts += [text[position:place], _NEW]
        position = place + len(_OLD)
    new = "".join([*parts, text[position:]])
    older = Renamed(text, new, tuple(places))
    tree = check.parse(new)
    return older if tree is not None and older.starts <= _transferring(tree, new) else None


def _transferring(tree: ast.Module, text: str) -> set[int]:
    """Where the argument starts in calls that transfer a tensor."""
    lines = text.splitlines(keepends=True)
    above = [0]
    for line in lines:
        above.append(above[-1] + len(line))
    found = set()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
            for keyword in (k for k in call.keywords if k.arg == _NEW):
                before = lines[keyword.lineno - 1].encode()[: keyword.col_offset]
                found.add(above[keyword.lineno - 1] + len(before.decode()))
    return found
