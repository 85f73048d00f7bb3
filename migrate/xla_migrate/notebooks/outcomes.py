"""What the migration of a notebook's Python is for the notebook's file: edits of its JSON, findings in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from xla_migrate.notebooks.cells import Cell, NotebookProblem
from xla_migrate.notebooks.programs import Program, Scattered
from xla_migrate.notebooks.rules import CELL, FOREIGN, NOTEBOOK
from xla_transforms.edits import apply, line_edits
from xla_transforms.findings import Change, Finding, Rule, Span
from xla_transforms.grouping import GPU
from xla_transforms.outcome import Outcome
from xla_transforms.rules import WITHDRAWN

Formatter = Callable[[str, str], str]
"""A cell's text before and after its migration; what comes back is the latter laid out."""


@dataclass(frozen=True)
class CellChange:
    """A cell before and after: its number among all cells, from 1, and its sources."""

    cell: Cell
    before: str
    after: str

    @property
    def number(self) -> int:
        return self.cell.number


@dataclass(frozen=True)
class NotebookOutcome(Outcome):
    """The outcome of a notebook. Spans and edits are those of its JSON text."""

    cells: tuple[Cell, ...] = ()
    changed_cells: tuple[CellChange, ...] = ()

    def cell_place(self, offset: int, *, migrated: bool = False) -> tuple[int, int, int] | None:
        """The number of the cell at an offset of the file, the line and the column in the cell, all from 1.

        With ``migrated`` the place in the cell as it is afterwards. ``None`` for what is in no code cell.
        """
        cell = next((c for c in self.cells if c.extent[0] <= offset < c.extent[1]), None)
        if cell is None:
            return None
        position, source = cell.position(offset), cell.source
        change = next((c for c in self.changed_cells if c.cell is cell), None)
        if migrated and change is not None:
            from xla_migrate.diff import place_after
            edits = list(line_edits(source, change.after))
            return (cell.number, *place_after(source, change.after, edits, position))
        return cell.number, source.count("\n", 0, position) + 1, position - source.rfind("\n", 0, position)


@dataclass(frozen=True)
class Notebook:
    """A notebook's file and its Python. ``formatted`` lays out the changed lines of its cells."""

    path: str
    data: bytes
    program: Program
    formatted: Formatter

    def lost(self, python: Outcome) -> frozenset[str]:
        """The names of the magics that could not be put back."""
        try:
            list(self.program.sources(python.code))
        except Scattered as problem:
            return frozenset(problem.lost)
        return frozenset()

    def outcome(self, python: Outcome) -> Outcome:
        """The outcome of the file, given that of its Python."""
        text = self.program.json
        said = [*self._own_findings(), *map(self._found, python.findings)]
        found = tuple(sorted(said, key=lambda finding: finding.span))
        base = NotebookOutcome(
            self.path, self.data, text, text, findings=found, failed=python.failed,
            cells=tuple(self.program.cells),
        )  # fmt: skip
        if not python.edits:
            return base
        try:
            changed = tuple(self._changes(python.code))
        except Scattered as problem:
            withdrawn = _finding(text, WITHDRAWN, 0, f"all changes withdrawn: {problem}")
            return replace(base, findings=(withdrawn, *found))
        edits = tuple(edit for change in changed for edit in change.cell.edits(change.after))
        return replace(
            base, code=apply(text, edits), edits=edits, changed_cells=changed,
            changes=tuple(self._moved(change) for change in python.changes),
            _narrower=lambda ids: self._narrowed(python, ids),
        )  # fmt: skip

    def _narrowed(self, python: Outcome, ids: Collection[int]) -> Outcome:
        return self.outcome(python.narrow(ids))

    def _changes(self, code: str) -> Iterator[CellChange]:
        for cell, after in self.program.sources(code):
            before = cell.source
            yield CellChange(cell, before, _formatted(before, after, self.formatted))

    def _own_findings(self) -> Iterator[Finding]:
        """Which cells were not read, as far as that matters."""
        for unread in self.program.unread:
            offset, number = unread.cell.offset(unread.position), unread.cell.number
            if unread.broken:
                message = f"cell {number} is not Python 3: {unread.reason}"
                yield _finding(self.program.json, CELL, offset, message, "mend the cell, or remove it")
            elif "torch" in unread.cell.source and GPU.search(unread.cell.source):
                message = f"cell {number} is not the notebook's Python: {unread.reason}"
                yield _finding(self.program.json, FOREIGN, offset, message, "migrate its code by itself")
        for region in self.program.regions:
            for place, written in region.masked.hidden():
                if "cuda" in written:
                    offset, number = region.cell.offset(place), region.cell.number
                    message = f"cell {number} gives {written.split()[0]} code that was not read"
                    yield _finding(self.program.json, FOREIGN, offset, message, "migrate its code by hand")

    def _found(self, finding: Finding) -> Finding:
        return replace(finding, span=self._span(finding.span))

    def _moved(self, change: Change) -> Change:
        return replace(change, spans=tuple(map(self._span, change.spans)))

    def _span(self, span: Span) -> Span:
        start = self.program.place(span.start if span.end > span.start else self._offset(span))
        end = max(start, self.program.place(span.end - 1) + 1) if span.end > span.start else start
        return json_span(self.program.json, start, end)

    def _offset(self, span: Span) -> int:
        """Where an empty span is: of a failure only line and column are known."""
        lines = self.program.text.splitlines(keepends=True)
        return max(span.start, sum(map(len, lines[: span.line - 1])) + span.column - 1)


def unreadable(path: str, data: bytes, problem: NotebookProblem) -> Outcome:
    """The outcome of a file that is no notebook: as it was, with the reason and its place."""
    text = data.decode("utf-8", "replace")
    finding = _finding(text, NOTEBOOK, problem.offset, problem.message, problem.advice)
    return Outcome(path, data, text, text, findings=(finding,), failed=True)


def _formatted(before: str, after: str, formatted: Formatter) -> str:
    """A cell with its changed lines laid out."""
    end = "" if before.endswith("\n") else "\n"
    lines = {*after.splitlines()} - {*before.splitlines()}
    if any(line.rstrip().endswith(";") for line in lines):  # black would print what the semicolon silences
        return after
    return formatted(before + end, after + end).removesuffix(end)


def _finding(text: str, rule: Rule, offset: int, message: str, advice: str = "") -> Finding:
    return Finding(rule.code, rule.name, rule.severity, message, json_span(text, offset, offset), advice)


def json_span(text: str, start: int, end: int) -> Span:
    """What stands in a text from one offset to another."""
    places = []
    for offset in (start, end):
        places += [text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)]
    return Span(start, end, *places)
