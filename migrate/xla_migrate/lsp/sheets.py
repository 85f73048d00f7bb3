"""Where in the editor a piece of a file stands: in a script, or in a cell of a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lsprotocol import types

from xla_migrate.lsp.positions import Positions
from xla_migrate.notebooks import NotebookOutcome
from xla_transforms.edits import line_edits
from xla_transforms.findings import Span
from xla_transforms.outcome import Outcome

Edits = dict[str, list[types.TextEdit]]
"""What is written, by the address of the text."""


class Sheets(Protocol):
    """The texts of one file in the editor, by their addresses."""

    @property
    def addresses(self) -> Sequence[str]: ...

    def place(self, span: Span) -> tuple[str, types.Range]:
        """In which text a piece of the file stands, and where in it."""
        ...

    def edits(self, outcome: Outcome) -> Edits:
        """What an outcome of the file writes."""
        ...


class Script:
    """A script, which is one text."""

    def __init__(self, address: str, text: str, encoding: str) -> None:
        self.addresses = (address,)
        self._positions = Positions(text, encoding)

    def place(self, span: Span) -> tuple[str, types.Range]:
        if span.end > span.start:
            return self.addresses[0], self._positions.range(span.start, span.end)
        place = types.Position(span.line - 1, 0)  # of a text that is not Python only the line is sure
        return self.addresses[0], types.Range(place, place)

    def edits(self, outcome: Outcome) -> Edits:
        found = [types.TextEdit(self._positions.range(e.start, e.end), e.text) for e in outcome.edits]
        return {self.addresses[0]: found} if found else {}


class Cells:
    """A notebook, each cell of which is a text; ``addresses`` are those of all its cells."""

    def __init__(self, addresses: Sequence[str], outcome: Outcome, encoding: str) -> None:
        self.addresses = addresses
        self._cells = outcome.cells if isinstance(outcome, NotebookOutcome) else ()
        self._encoding = encoding

    def place(self, span: Span) -> tuple[str, types.Range]:
        cell = next((c for c in self._cells if c.extent[0] <= span.start < c.extent[1]), None)
        if cell is None:  # of the whole notebook
            start = types.Position(0, 0)
            return self.addresses[0], types.Range(start, start)
        first = cell.position(span.start)
        last = cell.position(span.end - 1) + 1 if span.end > span.start else first
        return self.addresses[cell.number - 1], Positions(cell.source, self._encoding).range(first, last)

    def edits(self, outcome: Outcome) -> Edits:
        changed = outcome.changed_cells if isinstance(outcome, NotebookOutcome) else ()
        found: Edits = {}
        for change in changed:
            positions = Positions(change.before, self._encoding)
            edits = line_edits(change.before, change.after)
            written = [types.TextEdit(positions.range(e.start, e.end), e.text) for e in edits]
            found[self.addresses[change.number - 1]] = written
        return found
