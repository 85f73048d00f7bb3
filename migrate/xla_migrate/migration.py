"""From files to outcomes: scripts and notebooks of one run, migrated together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from xla_migrate import notebooks
from xla_migrate.notebooks import is_notebook

if TYPE_CHECKING:
    from xla_transforms.engine import Outcome, Settings


def migrate(files: Mapping[str, bytes], settings: Settings) -> dict[str, Outcome]:
    """The outcome of each file, all of them analysed as one run. Never raises."""
    if not any(map(is_notebook, files)):
        return dict(_engine(files, settings))
    found = notebooks.migrate(files, lambda contents: _engine(contents, settings), settings.black)
    return {path: _with_commands(outcome) for path, outcome in found.items()}


def _engine(files: Mapping[str, bytes], settings: Settings) -> Mapping[str, Outcome]:
    from xla_transforms import engine

    if len(files) != 1:
        return engine.migrate_program(files, settings)
    return {path: engine.migrate_bytes(data, settings, path) for path, data in files.items()}


def _with_commands(outcome: Outcome) -> Outcome:
    """The outcome of a notebook with what must be known about its shell commands."""
    if not is_notebook(outcome.path):
        return outcome
    from xla_migrate.launches import examine

    found = examine(outcome.path, outcome.original)
    every = sorted((*outcome.findings, *found), key=lambda finding: finding.span)
    return replace(outcome, findings=tuple(every)) if found else outcome
