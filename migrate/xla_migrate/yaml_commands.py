"""The commands in a file of YAML, each as one line: folded texts, lists of words, ``command`` with ``args``.

Read by its indentation, since what stands around a command may be a template that no parser takes.
Source: YAML 1.2.2, "Block Scalar Styles", "Flow Line Prefixes": lines that stand deeper go on with a text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_ENTRY = re.compile(r"(?P<dashes>(?:- +)*)(?:(?P<key>[\w./-]+):(?: +|$))?(?P<value>.*)")
_BLOCK = re.compile(r"(?P<style>[>|])[+\-\d]*")
_WORD = re.compile(r"\"[^\"]*\"|'[^']*'|[^,\s][^,]*")
# What a list of words begins with, where a list of commands would begin with a whole one.
_STARTS = re.compile(
    r"(?:.*/)?(?:torchrun|python[\d.]*|accelerate|deepspeed|horovodrun|mpirun|mpiexec|srun|env|(?:ba|z)?sh)"
)


class Entry(NamedTuple):
    """An entry of a mapping or a list, with its text over all its lines."""

    offset: int
    column: int
    listed: bool
    key: str
    text: str


def commands(text: str) -> Iterator[tuple[int, str]]:
    """What may be commands, each with its place in the text."""
    found, position = list(entries(text)), 0
    while position < len(found):
        entry = found[position]
        words, first, behind = _list(found, position)
        if words and entry.key == "command" and behind < len(found) and found[behind].key == "args":
            more, _, behind = _list(found, behind)
            words += more
        yield found[first].offset, shlex.join(words) if words else entry.text
        position = behind


def _list(entries: Sequence[Entry], position: int) -> tuple[list[str], int, int]:
    """The words of a list that an entry holds or begins, its first entry, and the place behind it."""
    entry = entries[position]
    if entry.text.startswith("[") and entry.text.endswith("]"):
        return [_plain(word.strip()) for word in _WORD.findall(entry.text[1:-1])], position, position + 1
    first = position + 1 if entry.key and not entry.text else position
    run = list(_run(entries[first:]))
    if run and (entry.key == "args" or _STARTS.fullmatch(_plain(run[0].text))):
        return [_plain(one.text) for one in run], first, first + len(run)
    return [], position, position + 1


def _run(entries: Sequence[Entry]) -> Iterator[Entry]:
    """The plain items of the list that the first entry begins."""
    for entry in entries:
        if not entry.listed or entry.key or entry.column != entries[0].column:
            return
        yield entry


def _plain(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text


def entries(text: str) -> Iterator[Entry]:
    """The entries of a text, in order, whatever they stand in."""
    lines = list(_lines(text))
    position = 0
    while position < len(lines):
        offset, column, bare = lines[position]
        match = _ENTRY.match(bare)
        assert match is not None
        listed, key, value = bool(match["dashes"]), match["key"] or "", match["value"].strip()
        block = _BLOCK.fullmatch(value)
        folded = block is not None and block["style"] == ">"
        goes_on = folded or (bool(key or listed) and bool(value) and block is None)
        parts, position = [] if block else [value], position + 1
        first, own = offset, column + (match.start("key") if key else 0)
        while position < len(lines) and (
            (goes_on and lines[position][1] > own) or (parts and parts[-1].endswith("\\"))
        ):
            first = first if parts else lines[position][0]
            parts.append(lines[position][2])
            position += 1
        yield Entry(first, column, listed, key, _joined(parts))


def _joined(parts: Sequence[str]) -> str:
    return _plain(" ".join(part.removesuffix("\\").rstrip() for part in parts))


def _lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Place, column and text of each line that is neither blank nor a comment."""
    offset = 0
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        column = len(line) - len(line.lstrip())
        if bare and not bare.startswith("#"):
            yield offset + column, column, bare
        offset += len(line)
