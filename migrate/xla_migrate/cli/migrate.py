"""The migration command: its options, and what they may not be combined with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from xla_migrate.choosing import Policy
from xla_migrate.cli import offers
from xla_migrate.cli.selection import Selection, selection_options, several
from xla_migrate.cli.session import Mode, Options, run
from xla_migrate.cli.usage import HELP
from xla_migrate.project import BadSettings, ProjectSettings, matcher, project_settings
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
@click.option("--add-ignore", is_flag=True)
@click.option("--unsafe-fixes", is_flag=True)
@click.option("--interactive", is_flag=True)
@click.option("--max-changes", type=click.IntRange(0), metavar="N")
@click.option("--select", multiple=True, metavar="RULES", shell_complete=offers.rules)
@click.option("--ignore", multiple=True, metavar="RULES", shell_complete=offers.rules)
@click.option("--exclude", multiple=True, metavar="PATTERN")
@click.option("--target", metavar="RELEASE", shell_complete=offers.targets)
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
    try:
        options = _options(given)
    except BadSettings as error:
        raise click.UsageError(str(error)) from error
    _refuse(options)
    raise SystemExit(run(options))


def _options(given: dict[str, Any]) -> Options:
    """The command line and, where it says nothing, the settings of the project. Raises ``BadSettings``."""
    selection = Selection(given["paths"], given["module"], given["follow"])
    from_stdin = selection.entries == ("-",)
    settings = project_settings(
        [given["stdin_filename"] or os.curdir] if from_stdin else selection.entries
    )
    excluded = _excluded(given["exclude"], settings)
    distributed = settings.distributed if given["distributed"] is None else given["distributed"]
    return Options(
        paths=selection.paths(excluded),
        mode=_mode(given, from_stdin),
        output=given["output"],
        stdin_filename=given["stdin_filename"],
        target=given["target"] or settings.target or DEFAULT,
        syncfree=given["syncfree"],
        distributed="auto" if distributed is None else distributed,
        fail_on=given["fail_on"],
        output_format=given["output_format"],
        quiet=given["quiet"],
        color=given["color"],
        policy=Policy.of(
            settings, several(given["select"]), several(given["ignore"]), given["unsafe_fixes"]
        ),
        excluded=excluded,
        interactive=given["interactive"],
        max_changes=given["max_changes"],
        jobs=given["jobs"] or 0,
        cache=not given["no_cache"],
        verified=_verified(given["verified"]),
    )


def _excluded(given: Sequence[str], settings: ProjectSettings) -> Callable[[str], bool] | None:
    """Whether a file below a folder is left out: by the option, or by the settings."""
    patterns = several(given)
    return matcher(os.curdir, patterns) if patterns else settings.excluded


def _mode(given: dict[str, Any], from_stdin: bool) -> Mode:
    chosen = given["inplace"] + bool(given["output"]) + (given["check"] or given["diff"])
    if chosen + given["add_ignore"] > 1:
        message = "--inplace, --output, --add-ignore and --check or --diff exclude one another"
        raise click.UsageError(message)
    if given["add_ignore"]:
        return Mode.ADD_IGNORE
    if given["inplace"]:
        return Mode.INPLACE
    if given["diff"]:
        return Mode.DIFF
    if given["check"]:
        return Mode.CHECK
    if given["output"]:
        return Mode.STDOUT if given["output"] == "-" else Mode.OUTPUT
    return Mode.STDOUT if from_stdin else Mode.PREVIEW


_ASKED = (Mode.INPLACE, Mode.DIFF, Mode.OUTPUT)


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
    if options.from_stdin and options.mode in (Mode.INPLACE, Mode.ADD_IGNORE):
        raise click.UsageError(f"--{options.mode.value} needs a file, not standard input")
    if options.interactive and (options.from_stdin or options.mode not in _ASKED):
        raise click.UsageError("--interactive needs files and --inplace, --diff or --output")
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
