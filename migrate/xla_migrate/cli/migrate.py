"""The migration command: its options, and what they may not be combined with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from xla_migrate.cli.selection import Selection, selection_options
from xla_migrate.cli.session import Mode, Options, run
from xla_migrate.cli.usage import HELP
from xla_migrate.releases import AUTO
from xla_migrate.reports import FOR_PEOPLE, FORMATS
from xla_transforms.targets import DEFAULT, target


class _Command(click.Command):
    def get_help(self, ctx: click.Context) -> str:
        return HELP.rstrip("\n")


@click.command(cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})
@selection_options
@click.option("--inplace", is_flag=True)
@click.option("--check", is_flag=True)
@click.option("--diff", is_flag=True)
@click.option("-o", "--output", metavar="FILE")
@click.option("--target", default=DEFAULT, metavar="RELEASE")
@click.option("--syncfree", type=click.Choice(["amp", "always", "never"]), default="amp")
@click.option("--distributed/--no-distributed", default=None)
@click.option("--stdin-filename", metavar="PATH")
@click.option(
    "--fail-on", type=click.Choice(["info", "warning", "error", "never"]), default="error"
)
@click.option("--output-format", type=click.Choice(list(FORMATS)), default="text")
@click.option("--verified", type=click.Path(exists=True, dir_okay=False), metavar="FILE")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N")
@click.option("--no-cache", is_flag=True)
@click.option("-q", "--quiet", is_flag=True)
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto")
@click.version_option(package_name="xla-migrate", message="xla-migrate %(version)s")
def migrate(**given: Any) -> None:
    given["paths"] = Selection(given["paths"], given["module"], given["follow"]).paths
    mode = _mode(given)
    options = Options(
        paths=given["paths"],
        mode=mode,
        output=given["output"],
        stdin_filename=given["stdin_filename"],
        target=given["target"],
        syncfree=given["syncfree"],
        distributed="auto" if given["distributed"] is None else given["distributed"],
        fail_on=given["fail_on"],
        output_format=given["output_format"],
        quiet=given["quiet"],
        color=given["color"],
        jobs=given["jobs"] or 0,
        cache=not given["no_cache"],
        verified=_verified(given["verified"]),
    )
    _refuse(options)
    raise SystemExit(run(options))


def _mode(given: dict[str, Any]) -> Mode:
    if given["inplace"] + bool(given["output"]) + (given["check"] or given["diff"]) > 1:
        raise click.UsageError("--inplace, --output and --check or --diff exclude one another")
    if given["inplace"]:
        return Mode.INPLACE
    if given["diff"]:
        return Mode.DIFF
    if given["check"]:
        return Mode.CHECK
    if given["output"]:
        return Mode.STDOUT if given["output"] == "-" else Mode.OUTPUT
    return Mode.STDOUT if given["paths"] == ("-",) else Mode.PREVIEW


def _verified(path: str | None) -> Mapping[str, Any] | None:
    """A report that ``verify --json`` wrote."""
    if path is None:
        return None
    try:
        found = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict) or found.get("version") != 1 or "outcome" not in found:
        raise click.UsageError(f"{path} is no report that verify --json wrote")
    return found


def _refuse(options: Options) -> None:
    if "-" in options.paths and len(options.paths) > 1:
        raise click.UsageError("standard input cannot be combined with other paths")
    if options.from_stdin and options.mode is Mode.INPLACE:
        raise click.UsageError("--inplace needs a file, not standard input")
    if options.stdin_filename and not options.from_stdin:
        raise click.UsageError("--stdin-filename needs '-' as the path")
    if options.mode in (Mode.OUTPUT, Mode.STDOUT) and (
        len(options.paths) > 1 or os.path.isdir(options.paths[0])
    ):
        raise click.UsageError("--output takes one input file")
    if options.output_format not in FOR_PEOPLE and options.mode is Mode.DIFF:
        raise click.UsageError("--diff prints a patch: no other format")
    try:
        target(options.target if options.target != AUTO else DEFAULT)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
