"""A run of the migration as all formats see it: its files, findings and changes with their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from xla_migrate import patch_paths
from xla_migrate.choosing import UNSAFE
from xla_migrate.known_rules import known_rules
from xla_transforms.findings import Change, Edit, Finding, Rule, Safety, Severity, Span

if TYPE_CHECKING:
    from xla_migrate.documents import Document
    from xla_migrate.releases import Choice

Outline = Literal["diff", "files", "nothing"]


class Place(NamedTuple):
    """A piece of a file as it now is; lines and columns count from 1, in characters, the end excluded."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Run:
    """What came of a run.

    ``applies``: the changes were written, not only shown. ``fail_on``: the least severity that asks for the
    exit status 1, ``never`` where changes that wait do alone, ``failure`` where nothing does. ``outline``
    says what people see above the findings: the diffs, a line for each changed file, or nothing.
    ``written_to`` is the file that the result of the only document went to, where that is another one.
    ``verified`` is a JSON report of ``verify``.
    """

    documents: Sequence[Document]
    target: Choice
    applies: bool = False
    fail_on: str = "error"
    outline: Outline = "diff"
    written_to: str | None = None
    quiet: bool = False
    colour: bool = False
    verified: Mapping[str, Any] | None = None

    @cached_property
    def exit_code(self) -> int:
        """2 for a failure, 1 for changes not applied or findings left, else 0."""
        if self.failed or self.fail_on == "failure":
            return 2 if self.failed else 0
        limit = None if self.fail_on == "never" else Severity[self.fail_on.upper()]
        left = limit is not None and any(f.severity >= limit for _, f in self.findings if not f.fixed)
        return int(left or bool(not self.applies and self.changed))

    @cached_property
    def failed(self) -> list[Document]:
        """The documents that could not be read, processed or written."""
        return [document for document in self.documents if document.failed]

    @cached_property
    def done(self) -> list[Document]:
        """The documents that could be processed."""
        return [d for d in self.documents if not d.failed] if self.failed else list(self.documents)

    @cached_property
    def changed(self) -> list[Document]:
        """Those that the migration would alter, or did."""
        return [document for document in self.done if document.changed]

    @cached_property
    def findings(self) -> list[tuple[Document, Finding]]:
        """Every finding, failures among them."""
        return [(document, finding) for document in self.documents for finding in document.findings]

    @property
    def pending(self) -> Iterator[tuple[Document, Change]]:
        """The changes that are not written yet."""
        for document in self.changed:
            if document.pending and document.outcome is not None:
                yield from ((document, change) for change in document.outcome.changes)

    @cached_property
    def waiting(self) -> int:
        """How many changes wait for ``--unsafe-fixes``."""
        left = [one for document in self.done for one in document.left_out]
        return sum(one.change.safety is Safety.UNSAFE and one.reason == UNSAFE for one in left)

    @cached_property
    def root(self) -> str:
        """The folder from which other programs are told paths."""
        return patch_paths.base(document.path for document in self.documents)

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """Every rule by its code."""
        return {rule.code: rule for rule in known_rules()}

    @property
    def verb(self) -> str:
        return "migrated" if self.applies else "to migrate"

    def name(self, document: Document) -> str:
        """What to call a document before people: the file that it was written to, or its path."""
        return self.written_to or document.path

    def path(self, document: Document) -> str:
        """What other programs call the file that the report is about."""
        return patch_paths.named(self.name(document), self.root)

    def patch_name(self, document: Document) -> str:
        """What a patch calls a document, from ``root``."""
        return patch_paths.named(document.path, self.root)

    def place(self, document: Document, span: Span) -> Place:
        """Where a piece of the source stands now: in the migrated text where that was written."""
        from xla_migrate.diff import place_after

        outcome = document.outcome
        if outcome is None or not (document.written and document.changed):
            return Place(span.line, span.column, span.end_line, span.end_column)
        parts = outcome.source, outcome.code, outcome.edits
        start, end = place_after(*parts, span.start), place_after(*parts, span.end)
        return Place(*start, *max(start, end))

    def where(self, document: Document, span: Span) -> str:
        """Line and column for people, in a notebook those in a cell: ``cell 3:5:1``."""
        from xla_migrate.notebooks.showing import cell_place

        written = document.written and document.changed
        found = cell_place(document.outcome, span.start, migrated=written) if document.outcome else ""
        place = self.place(document, span)
        return found or f"{place.line}:{place.column}"

    def line(self, document: Document, place: Place) -> str:
        """The line that a place is in, without its end; empty where there is none."""
        lines = self._lines(document)
        return lines[place.line - 1].rstrip("\r") if place.line <= len(lines) else ""

    def _lines(self, document: Document) -> list[str]:
        outcome, known = document.outcome, self._split
        if document.path not in known:
            written = outcome is not None and document.written and document.changed
            text = "" if outcome is None else outcome.code if written else outcome.source
            known[document.path] = text.split("\n")
        return known[document.path]

    @cached_property
    def _split(self) -> dict[str, list[str]]:
        return {}


def level(finding: Finding) -> Severity:
    """How much a finding asks of the reader: what the tool did itself is good to know."""
    return Severity.INFO if finding.fixed else finding.severity


def status(document: Document) -> str:
    """``failed``, ``written``, ``pending`` (would change) or ``unchanged``."""
    if document.failed:
        return "failed"
    if not document.changed:
        return "unchanged"
    return "written" if document.written else "pending"


def fix(document: Document, change: Change) -> tuple[Edit, ...]:
    """The edits of the file for one change, with all that it needs; imports are among them."""
    assert document.outcome is not None
    return document.outcome.narrow([change.id]).edits


def extent(text: str, edit: Edit) -> Place:
    """The piece of a text that an edit replaces, as lines and columns."""
    ends = [(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)) for at in (edit.start, edit.end)]
    return Place(*ends[0], *ends[1])
