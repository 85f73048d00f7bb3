"""What comes out for one file."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from xla_transforms.findings import Change, Edit, Finding


@dataclass(frozen=True)
class Outcome:
    """What came out for one file. ``data`` is what to write; it is ``original`` where nothing changed.

    ``edits`` replace pieces of ``source`` (offsets in characters) and give ``code``. ``failed`` means that
    the file could not be processed; a finding says why.
    """

    path: str
    original: bytes
    source: str = field(default_factory=str)  # no value of the class: see __getattr__
    code: str = field(default_factory=str)
    encoding: str = "utf-8"
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    edits: tuple[Edit, ...] = ()
    failed: bool = False
    _narrower: Callable[[Collection[int]], Outcome] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def untouched(cls, path: str, data: bytes) -> Outcome:
        """The outcome of an ASCII file with nothing to say of it; its text is decoded when it is asked for.

        Most files of a large tree are such: a frozen dataclass takes six times as long to make.
        """
        outcome = object.__new__(cls)
        known = outcome.__dict__
        known["path"], known["original"] = path, data
        return outcome

    def __getattr__(self, name: str) -> str:
        if name in ("source", "code") and "original" in self.__dict__:
            return self.original.decode("ascii")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def data(self) -> bytes:
        return self.code.encode(self.encoding) if self.edits else self.original

    def narrow(self, ids: Collection[int]) -> Outcome:
        """The same outcome with the changes of the given ids and those that they need; the imports follow."""
        return self if self._narrower is None else self._narrower(frozenset(ids))

    def without(self, ids: Collection[int]) -> Outcome:
        """The same outcome without the changes of the given ids, and without those that need one of them.

        Where even the rest needs one nothing is left.
        """
        kept = [change.id for change in self.changes if change.id not in ids]
        if len(kept) < len(self.changes) and not self.narrow(kept)._free_of(ids):
            kept = [one for one in kept if self.narrow([one])._free_of(ids)]
        rest = self if len(kept) == len(self.changes) else self.narrow(kept)
        return rest if rest._free_of(ids) else self.narrow([])

    def _free_of(self, ids: Collection[int]) -> bool:
        return not any(change.id in ids for change in self.changes)


def said_once(outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """The outcomes of a run, with each finding that speaks of the whole run at its first place alone."""
    told: set[str] = set()
    found = {}
    for path, outcome in outcomes.items():
        found[path] = outcome
        if not outcome.findings:
            continue
        kept = []
        for finding in outcome.findings:
            if not (finding.once and finding.code in told):
                kept.append(finding)
            told.update([finding.code] if finding.once else [])
        if len(kept) < len(outcome.findings):
            found[path] = replace(outcome, findings=tuple(kept))
    return found
