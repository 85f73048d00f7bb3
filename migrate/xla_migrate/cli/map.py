"""``xla-migrate map``: what a project does, from its entries on, and what of it is understood."""

from __future__ import annotations

import sys

import click

from xla_migrate.cli.selection import Selection, selection_options
from xla_migrate.cli.session import coloured
from xla_migrate.commands import installed_commands
from xla_migrate.documents import gather, map_documents
from xla_migrate.project import BadSettings, project_settings
from xla_migrate.reports.summary import failures
from xla_migrate.reports.terminal import Printer

_CONTEXT = {"help_option_names": ["-h", "--help"]}


@click.command("map", context_settings=_CONTEXT)
@selection_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto")
def show(paths: tuple[str, ...], module: str | None, follow: bool, as_json: bool, color: str) -> None:
    """Show the programs of a project: entries, loops, loaders, models, optimizers, steps, saves, devices.

    PATHS are files or folders, as for the migration. Each line has its file and line; what stays unknown
    is told with the reason. Nothing is run and nothing written. The exit status is 0, or 2 where a file could
    not be read.
    """
    selection = Selection(paths, module, follow)
    try:
        excluded = project_settings(selection.entries).excluded
    except BadSettings as error:
        raise click.UsageError(str(error)) from error
    named = selection.paths(excluded)
    documents = gather(named, excluded)
    project = map_documents(documents, installed_commands(named))
    failed = [line for document in documents for line in failures(document)]
    if as_json:
        from xla_migrate.reports.map_json import report

        click.echo(report(project), nl=False)
    else:
        from xla_migrate.reports.map_text import lines

        Printer(sys.stdout, coloured(sys.stdout, color)).print(lines(project))
    Printer(sys.stderr, coloured(sys.stderr, color)).print(failed)
    raise SystemExit(2 if failed or project.failed else 0)


map = show
