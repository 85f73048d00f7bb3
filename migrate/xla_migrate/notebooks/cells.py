"""The code cells of a notebook file: their sources, and how a new source is spliced into the JSON text.

Source: nbformat's documentation, "The Notebook file format" (4.5): ``source`` is a string, or a list of
strings to be joined; Jupyter writes a list of lines, each with its newline.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from xla_migrate.notebooks.positions import Extent, characters, elements, members, skip_blanks
from xla_transforms.findings import Edit
from xla_transforms.formatting import hunks

_MARK = "\ufeff"


class NotebookProblem(Exception):
    """A file is no notebook that can be read; ``offset`` is where its text shows that."""

    def __init__(self, message: str, advice: str = "", offset: int = 0) -> None:
        super().__init__(message)
        self.message, self.advice, self.offset = message, advice, offset


@dataclass(frozen=True)
class Piece:
    """A part of a source: what it says, and the JSON text from ``start`` to ``end`` that says so."""

    value: str
    start: int
    end: int


@dataclass(frozen=True)
class Cell:
    """A code cell; ``number`` counts all cells of the notebook from 1. ``language`` is what it says of
    itself, if it does."""

    number: int
    text: str  # of the whole file
    extent: Extent
    literals: tuple[Extent, ...]
    listed: bool
    language: str = ""

    @cached_property
    def source(self) -> str:
        return "".join(json.loads(self.text[start:end]) for start, end in self.literals)

    @cached_property
    def _characters(self) -> list[int]:
        """Where each character of the source stands in the file, and where the last one ends."""
        found: list[int] = []
        for literal in self.literals:
            found += characters(self.text, literal)[:-1]
        return [*found, self.literals[-1][1] - 1 if self.literals else self.extent[0]]

    def offset(self, position: int) -> int:
        """Where a character of the source stands in the file."""
        return self._characters[min(position, len(self._characters) - 1)]

    def position(self, offset: int) -> int:
        """Which character of the source stands there in the file."""
        return max(0, bisect_right(self._characters, offset) - 1)

    def edits(self, source: str) -> list[Edit]:
        """What gives the cell another source: only lines that differ are written anew."""
        new = source.splitlines(keepends=True)
        pieces = self._elements() if self.listed else self._lines()
        changed = hunks([piece.value for piece in pieces], new)
        if self.listed and (not pieces or not new):
            return [Edit(*self.extent, self._list(new))]
        write = self._listed_edit if self.listed else self._plain_edit
        return [write(pieces, i1, i2, new[j1:j2]) for i1, i2, j1, j2 in changed]

    def _elements(self) -> list[Piece]:
        return [Piece(json.loads(self.text[start:end]), start, end) for start, end in self.literals]

    def _lines(self) -> list[Piece]:
        places = self._characters
        pieces, position = [], 0
        for line in self.source.splitlines(keepends=True):
            behind = position + len(line)
            pieces.append(Piece(line, places[position], places[behind]))
            position = behind
        return pieces

    def _plain_edit(self, pieces: Sequence[Piece], first: int, last: int, lines: Sequence[str]) -> Edit:
        written = "".join(self._written(line)[1:-1] for line in lines)
        start = pieces[first].start if first < len(pieces) else self._characters[-1]
        return Edit(start, pieces[last - 1].end if last > first else start, written)

    def _listed_edit(self, pieces: Sequence[Piece], first: int, last: int, lines: Sequence[str]) -> Edit:
        written = self._separator.join(map(self._written, lines))
        if first < last and lines:
            return Edit(pieces[first].start, pieces[last - 1].end, written)
        if last < len(pieces):  # elements that come or go take the separator behind them along
            written += self._separator if lines else ""
            return Edit(pieces[first].start, pieces[last].start, written)
        written = self._separator + written if lines else ""
        return Edit(pieces[first - 1].end, pieces[last - 1].end, written)

    @cached_property
    def _separator(self) -> str:
        """What stands between two elements of the list."""
        if len(self.literals) > 1:
            return self.text[self.literals[0][1] : self.literals[1][0]]
        inner = skip_blanks(self.text, self.extent[0] + 1)
        return "," + (self.text[self.extent[0] + 1 : inner] or " ")

    def _list(self, lines: Sequence[str]) -> str:
        return "[" + self._separator.join(map(self._written, lines)) + "]"

    def _written(self, line: str) -> str:
        # A file without any other character writes them as escapes.
        return json.dumps(line, ensure_ascii=self.text.isascii())


def read(data: bytes) -> tuple[str, list[Cell], str]:
    """The text of a notebook file, its code cells, and its language in lower case (``python``).

    Raises ``NotebookProblem`` where it is not JSON, or not a notebook of nbformat 4.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise NotebookProblem(f"not a notebook: byte 0x{data[error.start]:02x} is not utf-8") from error
    start = len(text) - len(text.removeprefix(_MARK))
    try:
        content = json.loads(text[start:])
        _check(content)
        return text, list(_cells(text, skip_blanks(text, start), content)), _language(content)
    except json.JSONDecodeError as error:
        raise NotebookProblem(f"not a notebook: no JSON: {error.msg}", "", start + error.pos) from error
    except RecursionError as error:
        raise NotebookProblem("not a notebook: nested too deeply") from error


def _check(content: Any) -> None:
    version = content.get("nbformat") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise NotebookProblem("not a notebook: it names no nbformat")
    if version < 4:
        advice = "run: jupyter nbconvert --to notebook --nbformat 4 --inplace FILE"
        raise NotebookProblem(f"the notebook is of the old format {version}", advice)
    if version > 4:
        raise NotebookProblem(f"the notebook is of a format that is not known: {version}")
    if not isinstance(content.get("cells"), list):
        raise NotebookProblem("not a notebook: it has no list of cells")


def _language(content: Any) -> str:
    about = content.get("metadata")
    about = about if isinstance(about, dict) else {}
    for part, name in (("language_info", "name"), ("kernelspec", "language")):
        found = about[part].get(name) if isinstance(about.get(part), dict) else None
        if isinstance(found, str):
            return found.lower()
    return "python"


def _cells(text: str, start: int, content: Any) -> Iterator[Cell]:
    places = elements(text, members(text, start)["cells"][0])
    for number, (extent, cell) in enumerate(zip(places, content["cells"], strict=True), 1):
        if not isinstance(cell, dict) or "source" not in cell:
            raise NotebookProblem(f"not a notebook: cell {number} has no source", "", extent[0])
        if cell.get("cell_type") != "code":
            continue
        source = cell["source"]
        place = members(text, extent[0])["source"]
        listed = isinstance(source, list)
        if not all(isinstance(part, str) for part in (source if listed else [source])):
            raise NotebookProblem(f"not a notebook: the source of cell {number} is no text", "", place[0])
        literals = tuple(elements(text, place[0])) if listed else (place,)
        yield Cell(number, text, place, literals, listed, _own_language(cell))


def _own_language(cell: Any) -> str:
    """The language of one cell in a notebook of several (``metadata.vscode.languageId``)."""
    about = cell.get("metadata")
    editor = about.get("vscode") if isinstance(about, dict) else None
    found = editor.get("languageId") if isinstance(editor, dict) else None
    return found.lower() if isinstance(found, str) else ""
