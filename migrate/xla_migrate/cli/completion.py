"""Shell completion: click's own, over the migration's options and all commands.

Source: click, "Shell Completion": a program is run with ``_<PROGRAM>_COMPLETE`` set, prints and ends.
"""

from __future__ import annotations

from importlib import import_module

import click
from click.shell_completion import CompletionItem

from xla_migrate.cli import COMMANDS
from xla_migrate.cli.migrate import migrate

VARIABLE = "_XLA_MIGRATE_COMPLETE"
PROGRAM = "xla-migrate"


class _Whole(click.Group):
    """What ``xla-migrate`` takes: a command, or the options and paths of the migration."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        found: click.Command = getattr(import_module(COMMANDS[name]), name)
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        paths = [CompletionItem(incomplete, type="file")]  # first: in bash it undoes what stands before it
        first = not [*ctx._protected_args, *ctx.args]
        return [*paths, *(super().shell_complete(ctx, incomplete) if first else [])]


def complete(instruction: str) -> int:
    """Print what the shell asks for (``bash_source``, ``bash_complete``, the same of zsh and fish).

    Returns the exit status, 1 for an instruction that click does not know.
    """
    from click.shell_completion import shell_complete

    options = [param for param in migrate.params if isinstance(param, click.Option)]
    whole = _Whole(name=PROGRAM, params=list(options), context_settings=migrate.context_settings)
    return shell_complete(whole, {}, PROGRAM, VARIABLE, instruction)
