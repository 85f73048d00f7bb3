"""The lines of a notebook that a shell runs."""

from __future__ import annotations

from collections.abc import Iterator

from xla_migrate.notebooks.cells import Cell, NotebookProblem, read
from xla_migrate.notebooks.magics import foreign

_SHELLS = ("bash", "sh", "script")


def shell_lines(data: bytes) -> Iterator[tuple[int, str]]:
    """The shell's lines of a notebook: after ``!``, ``%env``, or in a cell of ``%%bash``; none of what is no
    notebook. Each with its place in the file's text."""
    try:
        cells = read(data)[1]
    except NotebookProblem:
        return
    for cell in cells:
        yield from _of_cell(cell)


def _of_cell(cell: Cell) -> Iterator[tuple[int, str]]:
    whole = foreign(cell.source) in _SHELLS
    position = 0
    for line in cell.source.splitlines(keepends=True):
        bare = line.lstrip()
        if whole or bare.startswith(("!", "%env ")):
            yield cell.offset(position), bare.removeprefix("%env ").lstrip("!").rstrip("\\ \r\n")
        position += len(line)
