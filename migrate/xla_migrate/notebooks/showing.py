"""A notebook before people: places by cell and line, and a diff for each cell."""

from __future__ import annotations

from collections.abc import Iterator

from xla_migrate.notebooks.outcomes import NotebookOutcome
from xla_transforms.edits import line_edits
from xla_transforms.outcome import Outcome


def cell_place(outcome: Outcome, offset: int, *, migrated: bool = False) -> str:
    """``cell 3:5:1`` for what stands at an offset of a notebook's file, empty for what is in no cell.

    Cells are counted from the top, those of prose among them; with ``migrated`` line and column are those
    in the migrated cell.
    """
    place = outcome.cell_place(offset, migrated=migrated) if isinstance(outcome, NotebookOutcome) else None
    return f"cell {place[0]}:{place[1]}:{place[2]}" if place is not None else ""


def differences(outcome: NotebookOutcome, path: str) -> Iterator[str]:
    """The diff of each cell that changes."""
    from xla_migrate.diff import text_diff

    for change in outcome.changed_cells:
        before, after = (text + "\n" * (not text.endswith("\n")) for text in (change.before, change.after))
        edits = list(line_edits(before, after))
        yield text_diff(before, after, edits, f"{path}:cell {change.number}")
