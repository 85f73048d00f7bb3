"""What comes out for one file."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from xla_transforms.findings import Change, Edit, Finding


@dataclass(frozen=True)
class Outcome:
    """What came out for one file. ``data`` is what to write; it is ``original`` where nothing changed.

    ``edits`` replace pieces of ``source`` (offsets in characters) and give ``code``. ``failed`` means that
    the file could not be processed; a finding says why.
    """

    path: str
    original: bytes
    source: str = ""
    code: str = ""
    encoding: str = "utf-8"
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    edits: tuple[Edit, ...] = ()
    failed: bool = False
    _narrower: Callable[[Collection[int]], Outcome] | None = field(default=None, repr=False, compare=False)
    _leaver: Callable[[frozenset[int]], Outcome] | None = field(default=None, repr=False, compare=False)

    @property
    def data(self) -> bytes:
        return self.code.encode(self.encoding) if self.edits else self.original

    def narrow(self, ids: Collection[int]) -> Outcome:
        """The same outcome with the changes of the given ids and those that they need; the imports follow."""
        return self if self._narrower is None else self._narrower(frozenset(ids))

    def without(self, ids: Collection[int]) -> Outcome:
        """The same outcome without the changes of the given ids, and without those that need one of them."""
        return self if self._leaver is None or not ids else self._leaver(frozenset(ids))
