"""What comments in the cells of a notebook tell the tool to leave alone, and how such comments are added."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from xla_migrate.notebooks.cells import Cell
from xla_migrate.notebooks.outcomes import NotebookOutcome, json_span
from xla_migrate.notebooks.programs import Program, Region
from xla_transforms.edits import apply
from xla_transforms.findings import Finding
from xla_transforms.ignores import Ignore, ignores, loose_ignores

WithIgnores = Callable[[str, dict[int, list[Finding]]], str]
"""Python with comments for the findings of each line."""


def cell_ignores(outcome: NotebookOutcome) -> list[Ignore]:
    """The comments in the cells, with the places in the file that they hold for: no further than their cell,
    unless they speak of the file. In a cell that is not the notebook's Python each speaks of the cell."""
    if "xla-migrate:" not in outcome.source:
        return []
    program = Program(outcome.original)
    found = [one for region in program.regions for one in _of_region(region)]
    for unread in program.unread:
        comments = loose_ignores(unread.cell.source)
        found += [_placed(one, unread.cell, lambda position: position) for one in comments]
    return sorted(found, key=lambda one: one.span)


def _of_region(region: Region) -> Iterator[Ignore]:
    for one in ignores(region.masked.text):
        yield _placed(one, region.cell, region.masked.place)


def _placed(one: Ignore, cell: Cell, place: Callable[[int], int]) -> Ignore:
    """A comment of a cell's text as one of the notebook's file; ``place`` leads to the cell's source."""

    def offset(position: int) -> int:
        return cell.offset(place(position))

    span = json_span(cell.text, offset(one.span.start), offset(one.span.end - 1) + 1)
    if one.kind == "file":
        return replace(one, span=span)
    if one.kind == "cell":
        return replace(one, span=span, start=cell.extent[0], end=cell.extent[1])
    if one.start == one.end:  # it holds for nothing
        return replace(one, span=span)
    end = min(one.end, len(cell.source) + 1)
    return replace(one, span=span, start=offset(one.start), end=offset(end - 1) + 1)


def with_cell_ignores(outcome: NotebookOutcome, findings: Iterable[Finding], add: WithIgnores) -> str:
    """The text of the notebook's file with comments for findings in its Python; others stay as they are."""
    found = list(findings)
    edits = []
    for region in Program(outcome.original).regions:
        start, end = region.cell.extent
        wanted: dict[int, list[Finding]] = {}
        for finding in found:
            if start <= finding.span.start < end:
                wanted.setdefault(_line(region, finding), []).append(finding)
        text = add(region.masked.text, wanted) if wanted else region.masked.text
        if text != region.masked.text:
            edits += region.cell.edits(region.masked.unmasked(_above(region, text)))
    return apply(outcome.source, edits)


def _above(region: Region, text: str) -> str:
    """The same, comments behind IPython's own lines, which would take them for theirs, above these."""
    for magic in region.masked.magics.values():
        if not magic.goes_on:
            behind = rf"^([ \t]*)({re.escape(magic.line)})[ \t]+(# xla-migrate:.*?)(\r?\n|$)"
            text = re.sub(behind, r"\1\3\n\1\2\4", text, flags=re.MULTILINE)
    return text


def _line(region: Region, finding: Finding) -> int:
    """The line of the cell's Python that holds what a finding speaks of."""
    position, line, offset = region.cell.position(finding.span.start), 0, 0
    for number, text in enumerate(region.masked.text.splitlines(keepends=True), 1):
        if region.masked.place(offset) <= position:
            line = number
        offset += len(text)
    return line
