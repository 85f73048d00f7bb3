"""Unified diffs made from edits, for ``git apply`` and for people."""

from __future__ import annotations

import bisect
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import AnyStr

from xla_transforms.findings import Edit
from xla_transforms.formatting import Hunk, hunks


def text_diff(source: str, code: str, edits: Sequence[Edit], path: str, context: int = 3) -> str:
    """The change from ``source`` to ``code`` as a patch; empty where nothing changes.

    ``path`` is what the patch names, with forward slashes; ``context`` counts lines.
    """
    before, after = _text_lines(source), _text_lines(code)
    parts = _unified(before, after, _line_hunks(source, code, edits), context)
    body = "".join(prefix + _closed(line) for prefix, line in parts)
    return "".join(_header(path)) + body if body else ""


def bytes_diff(
    original: bytes, data: bytes, source: str, code: str, edits: Sequence[Edit], path: str
) -> bytes:
    """The same in the file's own encoding, so that the patch fits the file on the disk."""
    before, after = _byte_lines(original), _byte_lines(data)
    if len(before) == len(_text_lines(source)) and len(after) == len(_text_lines(code)):
        changed = _line_hunks(source, code, edits)
    else:  # an encoding in which a newline is not one byte
        changed = hunks([repr(line) for line in before], [repr(line) for line in after])
    parts = _unified(before, after, changed, 3)
    body = b"".join(prefix.encode() + _closed(line) for prefix, line in parts)
    return "".join(_header(path)).encode("utf-8", "surrogateescape") + body if body else b""


@dataclass(frozen=True)
class Row:
    """A line of two texts side by side, with its numbers from 1; ``None`` where a side has none."""

    before: str | None
    after: str | None
    line_before: int | None
    line_after: int | None
    changed: bool


def side_by_side(source: str, code: str, edits: Sequence[Edit], context: int = 3) -> list[list[Row]]:
    """The change as rows of two columns, in pieces with ``context`` unchanged lines around them."""
    before, after = _text_lines(source), _text_lines(code)
    changed = _line_hunks(source, code, edits)
    return [_rows(before, after, group, context) for group in _groups(changed, context)]


def _rows(before: Sequence[str], after: Sequence[str], group: Sequence[Hunk], context: int) -> list[Row]:
    def row(i: int | None, j: int | None, changed: bool) -> Row:
        texts = None if i is None else before[i], None if j is None else after[j]
        return Row(*texts, None if i is None else i + 1, None if j is None else j + 1, changed)

    position = max(group[0][0] - context, 0)
    shift, found = group[0][2] - group[0][0], []
    for i1, i2, j1, j2 in group:
        found += [row(i, i + shift, False) for i in range(position, i1)]
        found += [row(i, j, True) for i, j in zip_longest(range(i1, i2), range(j1, j2))]
        position, shift = i2, j2 - i2
    end = min(position + context, len(before))
    return [*found, *(row(i, i + shift, False) for i in range(position, end))]


def place_after(source: str, code: str, edits: Sequence[Edit], offset: int) -> tuple[int, int]:
    """Line and column (both from 1) in ``code`` of what stood at ``offset`` in ``source``."""
    shift = 0
    for edit in edits:
        if edit.end > offset:
            if edit.start < offset:
                return _within(source, code, edit, offset, edit.start + shift)
            break
        shift += len(edit.text) - (edit.end - edit.start)
    return _position(code, offset + shift)


def _position(code: str, offset: int) -> tuple[int, int]:
    return code.count("\n", 0, offset) + 1, offset - code.rfind("\n", 0, offset)


def _within(source: str, code: str, edit: Edit, offset: int, start: int) -> tuple[int, int]:
    """The place in an edit's new text: the line that is the same but for its indentation, if there is one,
    else what came in the place of its lines."""
    old, new = source[edit.start : edit.end].split("\n"), edit.text.split("\n")
    row = source.count("\n", edit.start, offset)
    first, shift = _position(code, start)[0], 0
    for i1, i2, j1, j2 in hunks([line.strip() for line in old], [line.strip() for line in new]):
        if i2 > row:
            if i1 <= row:
                found = _begun(source, offset, new[j1:j2])
                if found is not None:
                    return first + j1 + found[0], found[1]
                return (first + j1, 1) if len(old) > 2 else _position(code, start)
            break
        shift = j2 - i2
    column = offset - source.rfind("\n", 0, offset)
    indents = [len(line) - len(line.lstrip()) for line in (old[row], new[row + shift])]
    return first + row + shift, column + indents[1] - indents[0]


def _text_lines(text: str) -> list[str]:
    """Lines with their newline: as for git, no form feed and no lone return ends one."""
    return io.StringIO(text, newline="\n").readlines()


def _byte_lines(data: bytes) -> list[bytes]:
    return io.BytesIO(data).readlines()


def _closed(line: AnyStr) -> AnyStr:
    """A line fit for a patch, which marks a missing final newline in a line of its own."""
    if isinstance(line, str):
        return line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
    return line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"


def _line_hunks(source: str, code: str, edits: Sequence[Edit]) -> list[Hunk]:
    before, after = _text_lines(source), _text_lines(code)
    found: list[Hunk] = []
    for i1, i2, j1, j2 in _touched(source, edits):
        i2, j2 = min(i2, len(before)), min(j2, len(after))
        found += [
            (a + i1, b + i1, c + j1, d + j1) for a, b, c, d in hunks(before[i1:i2], after[j1:j2])
        ]
    return found


def _touched(source: str, edits: Sequence[Edit]) -> list[Hunk]:
    """The lines that edits touch, before and after; those of neighbours are put together."""
    newlines = [match.start() for match in re.finditer("\n", source)] if edits else []
    found: list[Hunk] = []
    shift = 0
    for edit in edits:
        first = bisect.bisect_left(newlines, edit.start)
        last = bisect.bisect_left(newlines, edit.end)
        start, new_start = first, first + shift
        shift += edit.text.count("\n") - (last - first)
        if found and first <= found[-1][1]:
            start, _, new_start, _ = found.pop()
        found.append((start, last + 1, new_start, last + 1 + shift))
    return found


def _unified(
    before: Sequence[AnyStr], after: Sequence[AnyStr], changed: Sequence[Hunk], context: int
) -> Iterator[tuple[str, AnyStr]]:
    """Prefix and text of each line of a patch; a heading is part of the prefix behind it."""
    for group in _groups(changed, context):
        start = max(group[0][0] - context, 0)
        end = min(group[-1][1] + context, len(before))
        size = end - start + sum((j2 - j1) - (i2 - i1) for i1, i2, j1, j2 in group)
        new_start = group[0][2] - (group[0][0] - start)
        heading = f"@@ -{_range(start, end - start)} +{_range(new_start, size)} @@\n"
        for number, (mark, line) in enumerate(_marked(before, after, group, start, end)):
            yield mark if number else heading + mark, line


def _marked(
    before: Sequence[AnyStr], after: Sequence[AnyStr], group: Sequence[Hunk], start: int, end: int
) -> Iterator[tuple[str, AnyStr]]:
    position = start
    for i1, i2, j1, j2 in group:
        yield from ((" ", line) for line in before[position:i1])
        yield from (("-", line) for line in before[i1:i2])
        yield from (("+", line) for line in after[j1:j2])
        position = i2
    yield from ((" ", line) for line in before[position:end])


def _groups(changed: Sequence[Hunk], context: int) -> Iterator[list[Hunk]]:
    group: list[Hunk] = []
    for hunk in changed:
        if group and hunk[0] - group[-1][1] > 2 * context:
            yield group
            group = []
        group.append(hunk)
    if group:
        yield group


def _range(start: int, size: int) -> str:
    """A line range as patches write it: from 1, and the line before an empty one."""
    first = start + 1 if size else start
    return f"{first}" if size == 1 else f"{first},{size}"


def _header(path: str) -> tuple[str, str]:
    return f"--- {_quoted('a/' + path.lstrip('/'))}\n", f"+++ {_quoted('b/' + path.lstrip('/'))}\n"


def _quoted(path: str) -> str:
    """A path as git writes it: in quotes with C escapes where it would be misread otherwise."""
    if any(char < " " or char in '"\\\x7f' for char in path):
        escaped = "".join(
            f"\\{ord(char):03o}" if char < " " or char in '"\\\x7f' else char for char in path
        )
        return f'"{escaped}"'
    return path + "\t" if " " in path else path


def _begun(source: str, offset: int, lines: Sequence[str]) -> tuple[int, int] | None:
    """Which of some lines begins as that of an offset does, up to the word there; and that word's column."""
    before = source[source.rfind("\n", 0, offset) + 1 : offset].lstrip()
    word = re.compile(r"[\w.]+\(?").match(source, offset)
    if word is None:
        return None
    for number, line in enumerate(lines):
        if line.lstrip().startswith(before + word[0]):
            return number, len(line) - len(line.lstrip()) + len(before) + 1
    return None
