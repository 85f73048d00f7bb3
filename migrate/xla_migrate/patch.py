"""A planned migration of one text as an object: shown, applied, taken back, made smaller."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xla_transforms.findings import Change, Edit

if TYPE_CHECKING:
    from xla_transforms.engine import Outcome


class PatchError(ValueError):
    """The text is not the one that the patch was made for."""


@dataclass(frozen=True)
class Patch:
    """The edits that turn one source text into its migrated form."""

    outcome: Outcome

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Disjoint, in the order of the text; offsets count characters of the source."""
        return self.outcome.edits

    @property
    def changes(self) -> tuple[Change, ...]:
        return self.outcome.changes

    def __bool__(self) -> bool:
        return bool(self.edits)

    def unified_diff(self, path: str | None = None, context: int = 3) -> str:
        """The patch as text that ``git apply`` and ``patch -p1`` take; empty where nothing changes.

        ``path`` is the name written into the patch (that of the source by default), ``context`` the
        number of unchanged lines around each change.
        """
        from xla_migrate.diff import text_diff

        outcome = self.outcome
        return text_diff(outcome.source, outcome.code, outcome.edits, path or outcome.path, context)

    def apply(self, source: str) -> str:
        """The migrated text. Raises ``PatchError`` where ``source`` is not what was migrated."""
        if source != self.outcome.source:
            raise PatchError("this is not the source that the patch was made for")
        return self.outcome.code

    def reverse(self, code: str) -> str:
        """The source again. Raises ``PatchError`` where ``code`` is not what the patch makes."""
        if code != self.outcome.code:
            raise PatchError("this is not the code that the patch makes")
        return self.outcome.source

    def narrow(self, changes: Iterable[Change | int]) -> Patch:
        """The patch with these changes, given themselves or by id, and all that they need; imports follow.

        A removed transfer brings its device loader, one call of a scaler the others: look at ``changes``.

        Raises ``ValueError`` for a change that the patch does not hold.
        """
        ids = {change if isinstance(change, int) else change.id for change in changes}
        unknown = ids - {change.id for change in self.changes}
        if unknown:
            raise ValueError(f"the patch has no change {min(unknown)}")
        return Patch(self.outcome.narrow(ids))
