"""From files to outcomes: scripts and notebooks of one run, migrated together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace

from xla_migrate import notebooks, work
from xla_migrate.notebooks import is_notebook
from xla_migrate.work import ALONE, Done, How
from xla_transforms.formatting import format_changed
from xla_transforms.outcome import Outcome
from xla_transforms.settings import Settings


def migrate(files: Mapping[str, bytes], settings: Settings, how: How = ALONE) -> Done:
    """Migrate files, all of them analysed as one run. Never raises for what they hold."""
    done = _migrate(files, settings, how)
    if how.cache is not None:
        how.cache.trim()
    return done


def _migrate(files: Mapping[str, bytes], settings: Settings, how: How) -> Done:
    if not any(map(is_notebook, files)):
        return work.migrate(files, settings, how)
    parts: list[list[str]] = []

    def through(contents: Mapping[str, bytes]) -> Mapping[str, Outcome]:
        done = work.migrate(contents, settings, how)
        parts[:] = done.parts
        return done.outcomes

    found = notebooks.migrate(files, through, _formatter(settings, how))
    return Done({path: _with_commands(outcome) for path, outcome in found.items()}, parts)


def _formatter(settings: Settings, how: How) -> notebooks.Formatter:
    """What puts the changed lines of a cell in black's style; what it gave earlier is kept."""
    black = settings.black

    def formatted(before: str, after: str) -> str:
        return format_changed(before, after, black)

    cache = how.cache
    if black is None or cache is None:
        return formatted
    style = json.dumps(asdict(black), default=sorted)
    return lambda before, after: cache.text((style, before, after), lambda: formatted(before, after))


def _with_commands(outcome: Outcome) -> Outcome:
    """The outcome of a notebook with what must be known about its shell commands."""
    if not is_notebook(outcome.path):
        return outcome
    from xla_migrate.launches import examine

    found = examine(outcome.path, outcome.original)
    every = sorted((*outcome.findings, *found), key=lambda finding: finding.span)
    return replace(outcome, findings=tuple(every)) if found else outcome
