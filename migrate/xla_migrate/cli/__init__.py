"""The command line. Help and version are answered before anything else is imported."""

from __future__ import annotations

import os
import sys

from xla_migrate import __version__
from xla_migrate.cli.usage import HELP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    import click

# Commands besides the migration itself, each a module with a click command of the same name.
COMMANDS = {
    "bot": "xla_migrate.cli.bot",
    "compare": "xla_migrate.cli.verify",
    "doctor": "xla_migrate.cli.doctor",
    "explain": "xla_migrate.cli.explain",
    "lsp": "xla_migrate.cli.lsp",
    "map": "xla_migrate.cli.map",
    "record": "xla_migrate.cli.verify",
    "rules": "xla_migrate.cli.rules",
    "verify": "xla_migrate.cli.verify",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``xla-migrate`` with these arguments (those of the process by default).

    Returns the exit status: 0 clean or all applied, 1 changes pending or findings left, 2 a usage
    error or a file that could not be processed.
    """
    instruction = os.environ.get("_XLA_MIGRATE_COMPLETE")
    if instruction:  # the shell asks what may follow
        from xla_migrate.cli.completion import complete

        return complete(instruction)
    arguments = list(sys.argv[1:] if argv is None else argv)
    first = arguments[0] if arguments else ""
    if first in ("-h", "--help"):
        sys.stdout.write(HELP)
        return 0
    if first == "--version":
        sys.stdout.write(f"xla-migrate {__version__}\n")
        return 0
    if first in COMMANDS:
        return _run(COMMANDS[first], first, arguments[1:], f"xla-migrate {first}")
    return _run("xla_migrate.cli.migrate", "migrate", arguments, "xla-migrate")


def _run(module: str, name: str, arguments: list[str], program: str) -> int:
    from importlib import import_module

    command: click.Command = getattr(import_module(module), name)
    try:
        command.main(arguments, program)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception:  # Python's own exit status would be 1, which means "changes pending"
        import traceback

        traceback.print_exc()
        sys.stderr.write("xla-migrate: this is a fault of the program, not of your script\n")
        return 2
    return 0
