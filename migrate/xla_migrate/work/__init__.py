"""The work of a run: its parts, migrated one by one, in several processes, or known from an earlier run.

The outcome of a part depends on its files, the settings and the tool alone. So the outcomes of a run are the
same, and come in the same order, whatever processes and remembered outcomes are used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from xla_migrate.work.cache import Cache, default_folder
from xla_migrate.work.parts import Part
from xla_migrate.work.records import Record
from xla_transforms.collecting import no_collections
from xla_transforms.dividing import divide
from xla_transforms.outcome import Outcome, said_once
from xla_transforms.settings import Settings

__all__ = ["ALONE", "Cache", "Done", "How", "default_folder", "migrate"]

_FEW, _LITTLE = 4, 200_000  # parts, and bytes of source, below which further processes do not pay
_FAULT = "XLA006"  # of which the next run may be free

Progress = Callable[[int], AbstractContextManager[Callable[[], object]]]


@dataclass(frozen=True)
class How:
    """How to do the work. ``jobs`` is the number of processes, 0 for as many as there are processors where
    there is enough to do. ``progress(total)`` gives what is called for each part that is done."""

    jobs: int = 1
    cache: Cache | None = None
    progress: Progress = lambda total: nullcontext(lambda: None)


ALONE = How()


@dataclass(frozen=True)
class Done:
    """The outcomes of a run by path, and the paths of those files that belong together."""

    outcomes: dict[str, Outcome]
    parts: list[list[str]]


def migrate(files: Mapping[str, bytes], settings: Settings, how: How = ALONE) -> Done:
    """Migrate the files of a run. Never raises for what they hold."""
    from xla_transforms import engine

    with no_collections():
        speaking, others = divide(files)
        parts = [Part({path: files[path] for path in part}, settings) for part in speaking]
        outcomes = engine.left_alone({path: files[path] for path in others}) if others else {}
        for found in _done(parts, how):
            outcomes.update(found)
        return Done(said_once({path: outcomes[path] for path in files}), speaking)


def _done(parts: Sequence[Part], how: How) -> Iterator[Mapping[str, Outcome]]:
    """The outcomes of all parts."""
    waiting = []
    for part in parts:
        known = how.cache.get(part) if how.cache is not None else None
        if known is None:
            waiting.append(part)
        else:
            yield known
    jobs = min(_jobs(waiting, how), len(waiting))
    yield from _in_processes(waiting, how, jobs) if jobs > 1 else _in_turn(waiting, how)


def _jobs(parts: Sequence[Part], how: How) -> int:
    enough = len(parts) > _FEW and sum(part.size for part in parts) > _LITTLE
    return how.jobs or ((os.cpu_count() or 1) if enough else 1)


def _in_turn(parts: Sequence[Part], how: How) -> Iterator[Mapping[str, Outcome]]:
    with how.progress(len(parts)) as advance:
        for part in parts:
            if len(parts) == 1 and how.cache is None:
                yield part.migrate()
                return
            yield _kept(part, part.records(), how)
            advance()


def _in_processes(parts: Sequence[Part], how: How, jobs: int) -> Iterator[Mapping[str, Outcome]]:
    from xla_migrate.work.processes import in_processes

    results = in_processes(parts, jobs)
    left = set(range(len(parts)))
    with how.progress(len(parts)) as advance:
        for number, records in results:
            left.remove(number)
            yield _kept(parts[number], records, how)
            advance()
    for number in sorted(left):
        yield parts[number].given_up("the process that migrated it died, for want of memory perhaps")


def _kept(part: Part, records: list[Record], how: How) -> Mapping[str, Outcome]:
    faults = any(finding["code"] == _FAULT for found in records for finding in found["findings"])
    if how.cache is not None and not faults:
        how.cache.put(part, records)
    return part.outcomes(records)
