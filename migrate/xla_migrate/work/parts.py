"""One part of a run: files that imports connect, and what their migration gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from xla_migrate.work.records import Narrow, Record, outcome_of, record
from xla_transforms.collecting import collect_if_many
from xla_transforms.dividing import speaks
from xla_transforms.encoding import SourceError
from xla_transforms.outcome import Outcome
from xla_transforms.settings import Settings


@dataclass(frozen=True)
class Part:
    """The bytes of files by path, and how to migrate them."""

    files: Mapping[str, bytes]
    settings: Settings

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values()))

    def migrate(self) -> dict[str, Outcome]:
        """The outcomes; where the tool fails on the part as a whole, each of its files says so."""
        try:
            return self._migrated()
        except Exception as error:
            return self.given_up(f"the tool failed on its program ({type(error).__name__}: {error})")

    def given_up(self, reason: str) -> dict[str, Outcome]:
        """The outcomes of files that could not be migrated: as they were, those of GPUs with the reason."""
        from xla_transforms.engine import failure

        error, found = SourceError("XLA006", f"{reason}; it was left as it is"), {}
        for path, data in self.files.items():
            text = data.decode("utf-8", "replace")
            found[path] = failure(path, data, error) if speaks(data) else Outcome(path, data, text, text)
        return found

    def _migrated(self) -> dict[str, Outcome]:
        from xla_transforms import engine

        if len(self.files) == 1:
            ((path, data),) = self.files.items()
            return {path: engine.migrate_bytes(data, self.settings, path)}
        return dict(engine.migrate_program(self.files, self.settings))

    def records(self) -> list[Record]:
        """What ``migrate`` gives as plain data, in the order of the files."""
        outcomes = self.migrate()
        found = [record(outcomes[path]) for path in self.files]
        outcomes.clear()
        collect_if_many()  # the next part needs the room
        return found

    def outcomes(self, records: list[Record]) -> dict[str, Outcome]:
        """The outcomes again; those that are asked for some of their changes are migrated anew, once.

        Raises ``ValueError``, ``KeyError`` or ``TypeError`` where the records are not those of these files.
        """
        again = _Again(self)
        pairs = zip(self.files.items(), records, strict=True)
        return {path: outcome_of(path, data, found, again.of(path)) for (path, data), found in pairs}


class _Again:
    """A part that is migrated once more, when first some of its changes are asked for."""

    def __init__(self, part: Part) -> None:
        self._part = part

    @cached_property
    def _outcomes(self) -> dict[str, Outcome]:
        return self._part.migrate()

    def of(self, path: str) -> Narrow:
        """What makes the outcome of one file smaller."""
        return lambda ids: self._outcomes[path].narrow(ids)
