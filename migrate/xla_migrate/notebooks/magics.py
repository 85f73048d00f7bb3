"""IPython's own syntax in a cell, masked so that Python is left, and put back afterwards.

``%magic`` and ``!command`` lines become calls of a function that nothing knows, which may do anything:
that is what they are to the analysis. Of ``%time STATEMENT``, and of cells under ``%%time``, the Python
is read.
Source: the documentation of IPython, "Python vs IPython" and "Built-in magic commands".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from xla_transforms.check import parse
from xla_transforms.comments import LITERAL_OR_COMMENT

# Magics whose cell, or whose line, runs as Python in the notebook's own process and names.
_PYTHON_CELLS = {"time", "timeit", "capture", "prun", "memit", "debug"}
_PYTHON_LINES = re.compile(r"(%(?:time|prun|memit)[ \t]+)([^\s-].*)")
_CELL = re.compile(r"[ \t]*%%(\w+)[^\n]*(?:\n|$)")
_LINE = re.compile(r"[%!?/,;]|[\w.*\[\]]+\?\??[ \t]*$")
_ASSIGNED = re.compile(r"([\w.,* \t]*\w[ \t]*=[ \t]*)([%!].*)", re.DOTALL)
# What a cell has in which a line may be one of these: most have nothing of the kind.
_FOREIGN = re.compile(r"^[ \t\r]*[%!?/,;]|=[ \t]*[%!]|\?[ \t\r]*$", re.MULTILINE)
_COMMAND = re.compile(r"(?:[^\n\\]|\\(?:\r?\n)?)*(?:\n|$)")  # only a backslash makes it go on
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_TOKEN = re.compile(rf"(?:{LITERAL_OR_COMMENT.pattern})|\\\r?\n|[()\[\]{{}}]|\n")


@dataclass
class Masked:
    """A cell's source as Python: what was masked by which name, and how offsets lead back.

    ``heading`` is what stands for the cell's magics, which must stay in front.
    """

    text: str = ""
    magics: dict[str, Magic] = field(default_factory=dict)
    heading: str = ""
    _ours: list[int] = field(default_factory=list)
    _theirs: list[int] = field(default_factory=list)
    _lengths: list[int] = field(default_factory=list)

    def add(self, text: str, place: int, length: int) -> None:
        """Append what stands for so many characters of the source from ``place`` on."""
        self._ours.append(len(self.text))
        self._theirs.append(place)
        self._lengths.append(length if len(text) == length else 0)
        self.text += text

    def place(self, offset: int) -> int:
        """Where in the source a character of the masked text comes from."""
        if not self._ours:
            return offset
        part = max(0, bisect_right(self._ours, offset) - 1)
        return self._theirs[part] + min(offset - self._ours[part], self._lengths[part])

    def lost(self, text: str) -> set[str]:
        """The names of those magics that are no lines of their own in new text."""
        return {
            name
            for name, magic in self.magics.items()
            for line in re.findall(rf"^.*\b{name}\b.*$", text, re.MULTILINE)
            if not magic.stands(line)
        }

    def hidden(self) -> Iterator[tuple[int, str]]:
        """The magics with their places whose line may hold Python that was not read."""
        for magic in self.magics.values():
            if magic.written.startswith("%") and not magic.goes_on:
                yield self.place(self.text.index(magic.masked)), magic.written

    def unmasked(self, text: str) -> str:
        """New text with the magics in it again."""
        for magic in self.magics.values():
            text = text.replace(magic.masked, magic.written)
        return text


@dataclass(frozen=True)
class Magic:
    """A piece of IPython's syntax, and the Python that stands for it.

    ``line`` is the masked line but for its indentation; of one that goes on with Python it is the start.
    """

    written: str
    masked: str
    line: str
    goes_on: bool = False

    def stands(self, line: str) -> bool:
        bare = line.strip()
        return bare.startswith(self.line) and parse(bare) is not None if self.goes_on else bare == self.line


def foreign(source: str) -> str:
    """The magic that hands a whole cell to something else (``bash``, ``writefile``); empty for Python."""
    return next((head[1] for head in _headings(source) if head[1] not in _PYTHON_CELLS), "")


def mask(source: str, name: str, opaque: Container[str] = ()) -> Masked:
    """A cell that is Python but for its magics; ``name`` begins the names that stand for them.

    ``opaque`` are names of magics whose Python is not to be read.
    """
    found = Masked()
    place = 0
    for head in _headings(source):
        written = head[0].rstrip("\r\n")
        token = f"{name}{len(found.magics)}"
        heading = Magic(written, f"# {token}", f"# {token}")
        place = _masked_at(found, source, heading, token, place, head.start())
        found.heading = found.text
    for start, end in _logical_lines(source, place) if _FOREIGN.search(source, place) else ():
        token = f"{name}{len(found.magics)}"
        front, magic = _magic(source[start:end], token, token in opaque)
        if magic is not None:
            place = _masked_at(found, source, magic, token, place, start + front)
    found.add(source[place:], place, len(source) - place)
    return found


def _masked_at(found: Masked, source: str, magic: Magic, token: str, place: int, front: int) -> int:
    """Add the source from a place up to a magic, and the magic masked; tells where it ends."""
    end = front + len(magic.written)
    found.add(source[place:front], place, front - place)
    found.add(magic.masked, front, len(magic.written))
    found.magics[token] = magic
    return end


def _headings(source: str) -> Iterator[re.Match[str]]:
    """The lines of cell magics that a cell begins with."""
    place = len(source) - len(source.lstrip("\r\n"))
    while (head := _CELL.match(source, place)) is not None:
        yield head
        place = head.end()


def _magic(line: str, token: str, opaque: bool) -> tuple[int, Magic | None]:
    """What is IPython's in a logical line, and where in the line it begins."""
    body = line.strip(" \t\r\n")
    front = line.index(body)
    prefix = None if opaque else _PYTHON_LINES.fullmatch(body)
    assigned = _ASSIGNED.fullmatch(body)
    if prefix is not None and _is_python(prefix[2]):
        masked = f"with {token}(): "
        return front, Magic(prefix[1], masked, masked, goes_on=True)
    if _LINE.match(body):
        return front, Magic(body, f"{token}()", f"{token}()")
    if assigned is not None:
        return front + len(assigned[1]), Magic(assigned[2], f"{token}()", f"{assigned[1]}{token}()")
    return front, None


def _is_python(statement: str) -> bool:
    return parse(f"with a: {statement}\n") is not None


def _logical_lines(source: str, place: int) -> Iterator[tuple[int, int]]:
    """The lines of a cell, those that brackets, strings or a backslash join in one."""
    while place < len(source):
        end = _command_end(source, place) or _statement_end(source, place)
        yield place, end
        place = end


def _command_end(source: str, place: int) -> int:
    """Where a line ends that is a magic or a command, 0 for Python."""
    line = source[place : (source.find("\n", place) + 1) or len(source)].strip(" \t\r\n")
    found = _COMMAND.match(source, place) if _LINE.match(line) or _ASSIGNED.fullmatch(line) else None
    return found.end() if found is not None else 0


def _statement_end(source: str, place: int) -> int:
    depth = 0
    while (token := _TOKEN.search(source, place)) is not None:
        place = token.end()
        depth = max(0, depth + _BRACKETS.get(token[0], 0))
        if token[0] == "\n" and not depth:
            return place
    return len(source)
