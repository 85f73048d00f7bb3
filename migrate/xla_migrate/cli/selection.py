"""Which files a command is about: paths, a module as for ``python -m``, an entry with what it imports."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose files, for a command that takes ``paths``, ``module`` and ``follow``."""
    told = "The file that python -m MODULE runs, with its imports."
    module = click.option("-m", "module", metavar="MODULE", help=told)
    follow = click.option("--follow", is_flag=True, help="PATHS with all files that they import.")
    return click.argument("paths", nargs=-1)(module(follow(command)))


def several(given: Sequence[str]) -> tuple[str, ...]:
    """What an option that may be given several times names, each time one or more behind commas."""
    return tuple(one.strip() for text in given for one in text.split(",") if one.strip())


@dataclass(frozen=True)
class Selection:
    """What was named on a command line. Raises ``click.UsageError`` where it stands for no files."""

    named: tuple[str, ...]
    module: str | None
    follow: bool

    @property
    def entries(self) -> tuple[str, ...]:
        """What was named, the file of the module among it."""
        from xla_migrate.following import module_file

        found = () if self.module is None else (module_file(self.module),)
        if None in found:
            raise click.UsageError(f"no module {self.module!r} in the current folder")
        entries = (*self.named, *(one for one in found if one is not None))
        if not entries:
            raise click.UsageError("missing argument 'PATHS...'")
        return entries

    def paths(self, excluded: Callable[[str], bool] | None) -> tuple[str, ...]:
        """The paths to look at; with ``follow`` or a module all that is imported and not ``excluded``."""
        from xla_migrate.following import follow

        entries = self.entries
        if not self.follow and self.module is None:
            return entries
        if "-" in entries:
            raise click.UsageError("--follow needs a file, not standard input")
        named = {os.path.normpath(entry) for entry in entries}
        return tuple(p for p in follow(entries) if p in named or excluded is None or not excluded(p))
