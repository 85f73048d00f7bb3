"""Which files a command is about: paths, a module as for ``python -m``, an entry with what it imports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose files, for a command that takes ``paths``, ``module`` and ``follow``."""
    told = "The file that python -m MODULE runs, with its imports."
    module = click.option("-m", "module", metavar="MODULE", help=told)
    follow = click.option("--follow", is_flag=True, help="PATHS with all files that they import.")
    return click.argument("paths", nargs=-1)(module(follow(command)))


@dataclass(frozen=True)
class Selection:
    """What was named on a command line. Raises ``click.UsageError`` where it stands for no files."""

    named: tuple[str, ...]
    module: str | None
    follow: bool

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths to look at; with ``follow`` or a module every file that is imported."""
        from xla_migrate.following import follow, module_file

        entries = list(self.named)
        if self.module is not None:
            found = module_file(self.module)
            if found is None:
                raise click.UsageError(f"no module {self.module!r} in the current folder")
            entries.append(found)
        if not entries:
            raise click.UsageError("missing argument 'PATHS...'")
        if not self.follow and self.module is None:
            return self.named
        if "-" in entries:
            raise click.UsageError("--follow needs a file, not standard input")
        return tuple(follow(entries))
