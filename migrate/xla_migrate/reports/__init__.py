"""What a run has to say, one module a format.

A format is a module with ``report(run) -> str``; none knows another. What several of them need (what a
run is, text for terminals, the frame of a page) stands in modules of its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xla_migrate.reports.run import Run

FORMATS = {
    "text": "xla_migrate.reports.text",
    "concise": "xla_migrate.reports.concise",
    "json": "xla_migrate.reports.json",
    "sarif": "xla_migrate.reports.sarif",
    "github": "xla_migrate.reports.github",
    "gitlab": "xla_migrate.reports.gitlab",
    "rdjson": "xla_migrate.reports.rdjson",
    "markdown": "xla_migrate.reports.markdown",
    "html": "xla_migrate.reports.html",
}
"""The module of each format, by the name that ``--output-format`` knows it by."""

FOR_PEOPLE = ("text", "concise")
"""Formats that may stand beside a patch or a migrated script, which has standard output then."""


def report(name: str, run: Run) -> str:
    """What a run has to say in a format. Raises ``KeyError`` for a name that none has."""
    module = import_module(FORMATS[name])
    text: str = module.report(run)
    return text
