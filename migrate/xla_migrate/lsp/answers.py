"""What the migration of a document says, in the words of the Language Server Protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lsprotocol import types

from xla_migrate.documents import Document
from xla_migrate.lsp.sheets import Sheets
from xla_migrate.notebooks import is_notebook
from xla_migrate.reports.run import level
from xla_transforms.findings import Change, Finding, Safety, Severity, Span
from xla_transforms.outcome import Outcome

SOURCE = "xla-migrate"
MIGRATE_FILE = "source.xlaMigrate.file"
MIGRATE_PROGRAM = "source.xlaMigrate.program"
_LEVELS = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}


@dataclass(frozen=True)
class Answer:
    """The outcome of one document, and the texts of the editor that it was made for.

    ``page`` gives the address of a rule's page by code, or ``None``.
    """

    document: Document
    sheets: Sheets
    page: Callable[[str], str | None]

    @property
    def outcome(self) -> Outcome:
        assert self.document.outcome is not None
        return self.document.outcome

    def diagnostics(self) -> dict[str, list[types.Diagnostic]]:
        """The findings, and a hint at the first place of each change, by the address of their text."""
        found: dict[str, list[types.Diagnostic]] = {address: [] for address in self.sheets.addresses}
        for finding in self.document.findings:
            found[self.sheets.place(finding.span)[0]].append(self._finding(finding))
        for change in self.outcome.changes:
            found[self.sheets.place(change.spans[0])[0]].append(self.hint(change))
        return found

    def hint(self, change: Change) -> types.Diagnostic:
        """What a code action is offered for."""
        return self._diagnostic(change.spans[0], change.code, change.message, types.DiagnosticSeverity.Hint)

    def changes_in(self, address: str, wanted: types.Range) -> Iterator[Change]:
        """The changes with a place on the lines of a range of a text."""
        for change in self.outcome.changes:
            for where, place in map(self.sheets.place, change.spans):
                inside = place.start.line <= wanted.end.line and wanted.start.line <= place.end.line
                if where == address and inside:
                    yield change
                    break

    def fixes(self, address: str, wanted: types.Range) -> Iterator[Offer]:
        """A quick fix for each change of a range, with all that it needs; those of equal effect once."""
        seen = set()
        for change in self.changes_in(address, wanted):
            narrow = self.outcome.narrow([change.id])
            made = tuple(one.id for one in narrow.changes)
            if not narrow.edits or made in seen:
                continue
            seen.add(made)
            more = len(made) - 1
            needs = f" (with {more} {'change' if more == 1 else 'changes'} that it needs)" if more else ""
            action = types.CodeAction(
                title=f"{change.code}: {change.message}{needs}",
                kind=types.CodeActionKind.QuickFix,
                diagnostics=[self.hint(change)],
                is_preferred=change.safety is Safety.SAFE,
            )
            yield Offer(action, [(self, narrow)])

    def _finding(self, finding: Finding) -> types.Diagnostic:
        text = f"{finding.message}\n{finding.advice}" if finding.advice else finding.message
        return self._diagnostic(finding.span, finding.code, text, _LEVELS[level(finding)])

    def _diagnostic(
        self, span: Span, code: str, text: str, severity: types.DiagnosticSeverity
    ) -> types.Diagnostic:
        address = self.page(code)
        return types.Diagnostic(
            range=self.sheets.place(span)[1],
            message=text,
            severity=severity,
            code=code,
            code_description=types.CodeDescription(address) if address else None,
            source=SOURCE,
        )


@dataclass(frozen=True)
class Offer:
    """A code action, and the outcomes that it puts into the documents."""

    action: types.CodeAction
    outcomes: Sequence[tuple[Answer, Outcome]]


def offers(
    answers: Sequence[Answer], address: str, wanted: types.Range, only: Sequence[str] | None
) -> list[Offer]:
    """What is offered for a range of a text of the first document: fixes, and the migration of the whole.

    ``answers`` are those of all files of its program. ``only`` names kinds of actions, with all below them.
    """
    fixes = answers[0].fixes(address, wanted) if _asked(types.CodeActionKind.QuickFix, only) else ()
    changed = [(answer, answer.outcome) for answer in answers if answer.outcome.edits]
    found = list(fixes)
    if answers[0].outcome.edits and _asked(MIGRATE_FILE, only):
        kind = "notebook" if is_notebook(answers[0].document.path) else "file"
        title = f"Migrate the whole {kind} to PyTorch/XLA"
        found.append(Offer(types.CodeAction(title, kind=MIGRATE_FILE), changed[:1]))
    if len(changed) > 1 and _asked(MIGRATE_PROGRAM, only):
        title = f"Migrate the whole program to PyTorch/XLA ({len(changed)} files)"
        found.append(Offer(types.CodeAction(title, kind=MIGRATE_PROGRAM), changed))
    return found


def _asked(kind: str, only: Sequence[str] | None) -> bool:
    return not only or any(kind == one or kind.startswith(f"{one}.") for one in only)
