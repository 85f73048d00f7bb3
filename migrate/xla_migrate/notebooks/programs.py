"""A notebook as one Python text, cell behind cell, and its migrated text as cells again.

Between the cells stand comments, by which the new text is taken apart. A cell that is not Python is left out.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from xla_migrate.notebooks.cells import Cell, read
from xla_migrate.notebooks.magics import Masked, foreign, mask
from xla_transforms.check import parse


@dataclass(frozen=True)
class Region:
    """A cell's Python in the notebook's text, from ``start`` on; ``closed`` is the newline put behind it."""

    cell: Cell
    masked: Masked
    start: int
    closed: str


@dataclass(frozen=True)
class Unread:
    """A cell that is not part of the program: where in its source that shows, and why."""

    cell: Cell
    position: int
    reason: str
    broken: bool


class Scattered(Exception):
    """New text that is not the cells in their order any more; ``lost`` are magics that stand in its way."""

    def __init__(self, reason: str, lost: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.lost = lost


class Program:
    """The Python of a notebook: ``text``, in which ``regions`` are the cells, and the ``unread`` cells.

    ``opaque`` are names of magics whose Python is not to be read. Raises ``NotebookProblem``.
    """

    def __init__(self, data: bytes, opaque: Container[str] = ()) -> None:
        self.json, self.cells, language = read(data)
        self.regions: list[Region] = []
        self.unread: list[Unread] = []
        sources = [cell.source for cell in self.cells]
        whole = "".join(sources)
        self.newline = "\r\n" if "\r\n" in whole and not re.search(r"(?<!\r)\n", whole) else "\n"
        self._mark = _absent("cell", whole)
        self._magic = _absent("_magic", whole)
        # Two lines of our own: a cell's first lines declare no encoding.
        self._head = f"# %% {self._mark}{self.newline}"
        self.text = self._head
        if language in ("python", "python3", "python2", "ipython", "sage"):
            for cell, source in zip(self.cells, sources, strict=True):
                self._add(cell, source, opaque)

    def _add(self, cell: Cell, source: str, opaque: Container[str]) -> None:
        if cell.language not in ("", "python"):
            self.unread.append(Unread(cell, 0, cell.language, broken=False))
        elif magic := foreign(source):
            self.unread.append(Unread(cell, 0, f"%%{magic}", broken=False))
        else:
            masked = mask(source, f"{self._magic}_{cell.number}_", opaque)
            problem = _problem(masked.text)
            if problem is not None:
                position, reason = problem
                self.unread.append(Unread(cell, masked.place(position), reason, broken=True))
                return
            self.text += f"# %% {self._mark} {cell.number}{self.newline}"
            closed = "" if not masked.text or masked.text.endswith(("\n", "\r")) else self.newline
            self.regions.append(Region(cell, masked, len(self.text), closed))
            self.text += masked.text + closed

    def place(self, offset: int) -> int:
        """Where in the file a character of ``text`` comes from."""
        if not self.regions:
            return 0
        number = bisect_right([region.start for region in self.regions], offset) - 1
        region = self.regions[max(0, number)]
        return region.cell.offset(region.masked.place(max(0, offset - region.start)))

    def sources(self, text: str) -> Iterator[tuple[Cell, str]]:
        """The cells of migrated text that differ, each with its new source. Raises ``Scattered``."""
        parts = re.split(rf"^# %% {self._mark} (\d+)\r?\n", text, flags=re.MULTILINE)
        numbers = [str(region.cell.number) for region in self.regions]
        if parts[0] != self._head or parts[1::2] != numbers:
            raise Scattered("the result is not the cells in their order")
        for region, new in zip(self.regions, parts[2::2], strict=True):
            if new != region.masked.text + region.closed:
                yield region.cell, _source(region, new)


def _source(region: Region, new: str) -> str:
    """What a cell's new text is in its notebook."""
    lost = region.masked.lost(new)
    if lost or parse(new) is None or not new.startswith(region.masked.heading):
        raise Scattered(f"cell {region.cell.number} would not be one any more", sorted(lost))
    return region.masked.unmasked(new.removesuffix(region.closed))


def _absent(word: str, text: str) -> str:
    """A word that a text does not hold."""
    while word in text:
        word = f"_{word}"
    return word


def _problem(text: str) -> tuple[int, str] | None:
    """Where and why a cell is not Python; ``None`` where it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
            text.encode()
    except SyntaxError as error:
        lines = text.splitlines(keepends=True)
        above = sum(map(len, lines[: (error.lineno or 1) - 1]))
        return above + max(0, (error.offset or 1) - 1), error.msg
    except UnicodeEncodeError as error:
        return error.start, "half a character, which no file can hold"
    except (ValueError, RecursionError, MemoryError) as error:
        return 0, str(error) or type(error).__name__
    return None
