"""Places in a text as the Language Server Protocol counts them.

Source: LSP 3.17, "Position" and "PositionEncodingKind": lines end with ``\\n``, ``\\r\\n`` or ``\\r`` and
nothing else, and a character is a unit of UTF-16 unless client and server agree on another encoding.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from lsprotocol import types

_END = re.compile(r"\r\n|\r|\n")


class Positions:
    """Offsets in the characters of ``text`` as positions, whose columns count units of ``encoding``."""

    def __init__(self, text: str, encoding: str = types.PositionEncodingKind.Utf16) -> None:
        self._text, self._encoding = text, encoding
        ends = list(_END.finditer(text))
        self._starts = [0, *(end.end() for end in ends)]
        self._ends = [*(end.start() for end in ends), len(text)]

    def position(self, offset: int) -> types.Position:
        """The position of an offset; that of the line's end for an offset inside of a line ending."""
        line = bisect_right(self._starts, offset) - 1
        before = self._text[self._starts[line] : min(offset, self._ends[line])]
        return types.Position(line, self._units(before))

    def range(self, start: int, end: int) -> types.Range:
        """The range between two offsets, the end excluded."""
        return types.Range(self.position(start), self.position(end))

    def offset(self, position: types.Position) -> int:
        """The offset of a position; the end of its line for a position behind it."""
        line = min(position.line, len(self._starts) - 1)
        start, end = self._starts[line], self._ends[line]
        left = position.character
        for offset in range(start, end):
            if left <= 0:
                return offset
            left -= self._units(self._text[offset])
        return end

    def _units(self, text: str) -> int:
        if text.isascii() or self._encoding == types.PositionEncodingKind.Utf32:
            return len(text)
        if self._encoding == types.PositionEncodingKind.Utf8:
            return len(text.encode("utf-8", "surrogatepass"))
        return len(text) + sum(ord(character) > 0xFFFF for character in text)
