"""The one way through: filter, parse, analyse, plan, apply, check. A pure function of bytes and settings.

What is heavy (libcst, the passes) is imported only for a file that passes the filter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from xla_transforms.collecting import no_collections
from xla_transforms.dividing import speaks
from xla_transforms.encoding import SourceError, decode, is_plain
from xla_transforms.findings import Finding, Span
from xla_transforms.old_python import Renamed, renamed
from xla_transforms.outcome import Outcome
from xla_transforms.rules import ENGINE_RULES
from xla_transforms.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xla_transforms.mapping import ProjectMap

__all__ = ["Outcome", "Settings", "map_program", "migrate_bytes", "migrate_program"]

_CALLS = 5_000  # takes less than half of the usual stack of 8 MiB
_RULES = {rule.code: rule for rule in ENGINE_RULES}


def migrate_bytes(data: bytes, settings: Settings | None = None, path: str = "<unknown>") -> Outcome:
    """Migrate one file. Never raises: what cannot be read comes back as it is, with a finding."""
    return migrate_program({path: data}, settings)[path]


def migrate_program(
    files: Mapping[str, bytes], settings: Settings | None = None
) -> dict[str, Outcome]:
    """Migrate several modules that import one another as one program, by path. Never raises."""
    settings = settings or Settings()
    outcomes = left_alone(files)
    texts: dict[str, tuple[str, bytes, str]] = {}
    old: dict[str, Renamed] = {}
    read = False
    for path, left in outcomes.items():
        if left.failed:
            continue
        spoken = speaks(left.original)
        read = read or spoken
        older = renamed(left.source) if spoken else None
        if older is not None:
            old[path] = older
        texts[path] = (older.text if older else left.source, left.original, left.encoding)
    if read:
        from xla_transforms.pipeline import migrate_texts

        with no_collections(), _depth():
            outcomes.update(migrate_texts(texts, settings, failure))
        outcomes.update({path: older.restored(outcomes[path]) for path, older in old.items()})
    return {path: outcomes[path] for path in files}


def left_alone(files: Mapping[str, bytes]) -> dict[str, Outcome]:
    """The outcomes of files of which none speaks of torch and GPUs (``dividing.speaks``), by path."""
    outcomes: dict[str, Outcome] = {}
    for path, data in files.items():
        if is_plain(data):
            outcomes[path] = Outcome.untouched(path, data)
            continue
        try:
            text, encoding = decode(data)
        except SourceError as error:
            outcomes[path] = failure(path, data, error)
        else:
            outcomes[path] = Outcome(path, data, text, text, encoding)
    return outcomes


def map_program(
    files: Mapping[str, bytes], settings: Settings | None = None, commands: Mapping[str, str] | None = None
) -> ProjectMap:
    """Map what the programs of some modules do, by path. Never raises for what they hold.

    ``commands`` are the functions (``package.module:main``) that a project's installed commands call.
    """
    from xla_transforms.pipeline import map_texts

    texts: dict[str, tuple[str, bytes, str]] = {}
    failed: dict[str, str] = {}
    for path, data in files.items():
        try:
            text, encoding = decode(data)
        except SourceError as error:
            failed[path] = error.message
            continue
        texts[path] = (text, data, encoding)
    with no_collections(), _depth():
        project = map_texts(texts, settings or Settings(), failure, commands or {})
    project.failed |= failed
    return project


@contextmanager
def _depth() -> Iterator[None]:
    """Questions lead from call to call through all files of a program: deeper than Python's own limit of
    1,000 calls, which is set for stacks much smaller than they are."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _CALLS))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def failure(path: str, data: bytes, error: SourceError) -> Outcome:
    """The outcome of a file that could not be processed: as it was, with the reason and its place."""
    rule = _RULES[error.code]
    span = Span(0, 0, error.line, error.column, error.line, error.column)
    finding = Finding(rule.code, rule.name, rule.severity, error.message, span, error.advice)
    text = data.decode("utf-8", "replace")
    return Outcome(path, data, text, text, findings=(finding,), failed=True)
