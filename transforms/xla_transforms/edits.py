"""Edits of a text: carried out, and found between two texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xla_transforms.findings import Edit
from xla_transforms.formatting import hunks


def apply(text: str, edits: Sequence[Edit], start: int = 0, end: int | None = None) -> str:
    """The text between ``start`` and ``end`` with sorted, disjoint edits applied."""
    pieces: list[str] = []
    position = start
    for edit in edits:
        pieces += [text[position : edit.start], edit.text]
        position = edit.end
    pieces.append(text[position : len(text) if end is None else end])
    return "".join(pieces)


def line_edits(before: str, after: str) -> Iterator[Edit]:
    """The edits, whole lines each, that turn one text into another."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    offsets = [0]
    for line in old:
        offsets.append(offsets[-1] + len(line))
    for i1, i2, j1, j2 in hunks(old, new):
        yield Edit(offsets[i1], offsets[i2], "".join(new[j1:j2]))
