"""The commands in a text that people read: fenced, indented and literal blocks, and code spans.

Source: CommonMark 0.31, "Indented code blocks", "Fenced code blocks", "Code spans"; reStructuredText has its
literal blocks indented, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"\s*(?P<mark>`{3,}|~{3,})\s*\{?\.?(?P<language>[\w+-]*)")
_SHELLS = ("", "bash", "sh", "shell", "zsh", "console", "shell-session", "terminal", "text", "cmd")
_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)")
_INDENTED = re.compile(r"(?: {2,}|\t)\s*\S")


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Pieces of a text that may hold commands, each with its place in the text."""
    fence, shell, start, offset = "", False, 0, 0
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        if fence:
            if found is not None and found["mark"].startswith(fence):
                yield from [(start, text[start:offset])] if shell else []
                fence = ""
        elif found is not None:
            fence, shell, start = found["mark"], found["language"].lower() in _SHELLS, offset + len(line)
        elif _INDENTED.match(line):
            yield offset, line
        else:
            yield from ((offset + span.start(2), span[2]) for span in _SPAN.finditer(line))
        offset += len(line)
