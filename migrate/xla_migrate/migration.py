"""From files to outcomes: scripts and notebooks of one run, migrated together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xla_migrate import notebooks, work
from xla_migrate.notebooks import is_notebook
from xla_migrate.work import ALONE, Done, How
from xla_transforms.outcome import Outcome
from xla_transforms.settings import Settings


def migrate(files: Mapping[str, bytes], settings: Settings, how: How = ALONE) -> Done:
    """Migrate files, all of them analysed as one run. Never raises for what they hold."""
    if not any(map(is_notebook, files)):
        return work.migrate(files, settings, how)
    parts: list[list[str]] = []

    def through(contents: Mapping[str, bytes]) -> Mapping[str, Outcome]:
        done = work.migrate(contents, settings, how)
        parts[:] = done.parts
        return done.outcomes

    found = notebooks.migrate(files, through, settings.black)
    return Done({path: _with_commands(outcome) for path, outcome in found.items()}, parts)


def _with_commands(outcome: Outcome) -> Outcome:
    """The outcome of a notebook with what must be known about its shell commands."""
    if not is_notebook(outcome.path):
        return outcome
    from xla_migrate.launches import examine

    found = examine(outcome.path, outcome.original)
    every = sorted((*outcome.findings, *found), key=lambda finding: finding.span)
    return replace(outcome, findings=tuple(every)) if found else outcome
