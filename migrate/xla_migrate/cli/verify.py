"""``xla-migrate verify``, ``record`` and ``compare``: their options, and how their end is told."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from xla_migrate.cli import offers
from xla_migrate.cli.selection import several
from xla_migrate.reports import terminal
from xla_transforms.targets import DEFAULT, target

if TYPE_CHECKING:
    from xla_migrate.verify import Trace, Verdict
    from xla_migrate.verify.verifying import Options, Progress

Function = TypeVar("Function", bound=Callable[..., Any])
INTERRUPTED = 130
MESSAGE_LINES = 5
STAGES = {
    "native": "native run",
    "folded": "native run with larger batches",
    "ordered": "native run in the order of the replicas",
    "shaken": "native run with rounded parameters",
    "migration": "migration",
    "migrated": "migrated run",
    "counted": "counting executions",
}


class OutputPath(click.Path):
    """A file to write when the runs are over: a folder that is missing is told before they begin."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        folder = os.path.dirname(path)
        if folder and not os.path.isdir(folder):
            self.fail(f"there is no folder {folder!r} to write it to.", param, ctx)
        return path


FILE = click.Path(dir_okay=False)
OUTPUT = OutputPath(dir_okay=False)
SCRIPT = click.Path(exists=True, dir_okay=False)
CONTEXT = {"help_option_names": ["-h", "--help"]}

RUN_OPTIONS = (
    click.argument("script", type=SCRIPT),
    click.argument("arguments", nargs=-1, type=click.UNPROCESSED),
    click.option("--steps", type=click.IntRange(1), metavar="N", help="Stop after N optimizer steps."),
    click.option("--seed", type=int, default=0, metavar="N", help="The seed.  [default: 0]"),
    click.option("--timeout", type=click.FloatRange(0, min_open=True), default=1800.0, metavar="SECONDS",
                 help="End a run that takes longer, with every thread's stack.  [default: 1800]"),
    click.option("--rng", type=click.Choice(["host", "device"]), default="host",
                 help="host: both sides draw the same numbers; device: the script's own.  [default: host]"),
    click.option("--share", type=click.Path(exists=True), multiple=True, metavar="PATH",
                 help="Link this data into the scratch copies instead of copying it (again for more)."),
    click.option("--copy-limit", type=float, default=2.0, metavar="GB",
                 help="The most that is copied for a run.  [default: 2]"),
    click.option("--keep", is_flag=True, help="Keep the scratch copies and say where they are."),
    click.option("--native-python", type=FILE, default="", metavar="PATH",
                 help="An interpreter that has torch.  [default: this one]"),
    click.option("--xla-python", type=FILE, default="", metavar="PATH",
                 help="An interpreter that has torch_xla.  [default: this one]"),
)  # fmt: skip

MIGRATION_OPTIONS = (
    click.option("--target", "release", metavar="RELEASE", shell_complete=offers.targets,
                 help=f"The torch_xla release to migrate to, or auto.  [default: {DEFAULT}]"),
    click.option("--syncfree", type=click.Choice(["amp", "always", "never"]), default="amp",
                 help="Use syncfree optimizers.  [default: amp]"),
    click.option("--distributed/--no-distributed", default=None,
                 help="Migrate to replicas.  [default: as the script, or with --replicas]"),
    click.option("--unsafe-fixes", is_flag=True,
                 help="Make the changes, too, that may alter what the script does."),
    click.option("--select", multiple=True, metavar="RULES", shell_complete=offers.rules,
                 help="Make only changes of these rules.  [default: all]"),
    click.option("--ignore", multiple=True, metavar="RULES", shell_complete=offers.rules,
                 help="Make no changes of these rules."),
)  # fmt: skip

REPORT_OPTIONS = (
    click.option("--html", type=OUTPUT, metavar="FILE", help="Write a page with curves and the diff."),
    click.option("--json", "json_file", type=OUTPUT, metavar="FILE", help="Write the report for programs."),
    click.option("--strict", is_flag=True,
                 help="Exit with 1 also where it trains the same but executes or compiles too often."),
    click.option("--output-format", type=click.Choice(["text", "json"]), default="text",
                 help="What goes to standard output.  [default: text]"),
    click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto",
                 help="Colours.  [default: auto]"),
)  # fmt: skip


def with_options(*groups: Sequence[Callable[[Function], Function]]) -> Callable[[Function], Function]:
    """A decorator that adds all options of these groups."""

    def add(function: Function) -> Function:
        for option in reversed([option for group in groups for option in group]):
            function = option(function)
        return function

    return add


class _Command(click.Command):
    """Says where the arguments of the script belong."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if "--" in given:
                raise
            message = f"{error.format_message()} Options of the script stand behind a --."
            raise click.UsageError(message, ctx) from error


@click.command(cls=_Command, context_settings=CONTEXT, short_help="Run a script natively and migrated.")
@with_options(RUN_OPTIONS, MIGRATION_OPTIONS, REPORT_OPTIONS)
@click.option("--replicas", type=click.IntRange(1), default=1, metavar="N",
              help="Run N replicas against N native ranks over gloo.  [default: 1]")  # fmt: skip
def verify(**given: Any) -> None:
    """Run SCRIPT natively and migrated, and compare what it trained.

    ARGUMENTS behind a -- are those of the script. It runs in scratch copies of its project and of the
    current directory; your files are not touched. Where no option says how to migrate, [tool.xla-migrate] of
    the project's pyproject.toml does.

    Exit status: 0 the same training, 1 another one, 2 not comparable, or a wrong command line.
    """
    from xla_migrate.reports.progress import Progress as Bars

    given = {**given, **_migration(given)}
    with _told(), Bars() as bars:
        from xla_migrate.verify.verifying import verify as run

        options = _options(given)
        verdict = run(given["script"], given["arguments"], options, progress=_onto(bars, options.steps))
    _finish(verdict, given)


@click.command(cls=_Command, context_settings=CONTEXT, short_help="Run a script and keep a trace.")
@with_options(RUN_OPTIONS)
@click.option("--out", type=OUTPUT, required=True, metavar="FILE", help="The trace to write.")
@click.option("--side", type=click.Choice(["native", "xla"]), default="native",
              help="What the script is written for.  [default: native]")  # fmt: skip
@click.option("--mode", type=click.Choice(["values", "count"]), default="values",
              help="values: what it trains; count: what it executes (xla).  [default: values]")  # fmt: skip
def record(**given: Any) -> None:
    """Run SCRIPT as it stands and write what it did as a trace, for compare.

    ARGUMENTS behind a -- are those of the script. It runs in a scratch copy of its project and of the
    current directory; your files are not touched.

    Exit status: 0, or 2 where the script failed (the trace is written all the same).
    """
    from xla_migrate.reports.progress import Progress as Bars

    if given["mode"] == "count" and given["side"] == "native":
        raise click.UsageError("executions are counted on the XLA side: --mode count needs --side xla")
    with _told(), Bars() as bars:
        from xla_migrate.verify import trace_file
        from xla_migrate.verify.verifying import record as run

        options = _options(given)
        trace = run(
            given["script"], given["side"], given["arguments"], options, mode=given["mode"],
            progress=_onto(bars, options.steps),
        )  # fmt: skip
        trace_file.save(trace, Path(given["out"]))
    raise SystemExit(_recorded(trace, given["out"]))


@click.command(context_settings=CONTEXT, short_help="Compare two traces.")
@click.argument("native", type=SCRIPT)
@click.argument("migrated", type=SCRIPT)
@click.option("--counted", type=SCRIPT, metavar="FILE", help="A trace of the migrated run with --mode count.")
@with_options(REPORT_OPTIONS)
def compare(**given: Any) -> None:
    """Compare a NATIVE trace with that of a MIGRATED run: where do they part first?

    Exit status: 0 the same training, 1 another one, 2 not comparable, or no traces.
    """
    with _told():
        from xla_migrate.verify import judge, trace_file

        traces = [
            trace_file.load(Path(given[name])) if given[name] else None
            for name in ("native", "migrated", "counted")
        ]
        verdict = judge(*traces)  # type: ignore[arg-type]
    _finish(verdict, given)


def _migration(given: dict[str, Any]) -> dict[str, Any]:
    """How to migrate, checked before anything runs: what the options say, and the project's settings."""
    from xla_migrate.project import known, project_settings
    from xla_migrate.releases import AUTO

    try:
        settings = project_settings([given["script"]])
        release = given["release"] or settings.target or DEFAULT
        target(DEFAULT if release == AUTO else release)
        rules = {name: known(several(given[name])) for name in ("select", "ignore")}
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return {**rules, "settings": settings}


def _options(given: dict[str, Any]) -> Options:
    from xla_migrate.verify.verifying import Options

    return Options(
        steps=given["steps"],
        seed=given["seed"],
        timeout=given["timeout"],
        rng=given["rng"],
        share=tuple(map(Path, given["share"])),
        copy_limit=int(given["copy_limit"] * 10**9),
        keep=given["keep"],
        native_python=given["native_python"],
        xla_python=given["xla_python"],
        replicas=given.get("replicas", 1),
        **_of_migration(given),
    )


def _of_migration(given: dict[str, Any]) -> dict[str, Any]:
    """The options that a command has only where it migrates."""
    names = ("syncfree", "distributed", "unsafe_fixes", "select", "ignore", "settings")
    found = {name: given[name] for name in names if name in given}
    return {**found, "target": given.get("release")}


def _onto(bars: Any, total: int | None) -> Progress:
    """What is told the stages of a verification, shown by a progress display."""
    stage, done = "", 0

    def show(now: str, steps: int) -> None:
        nonlocal stage, done
        if now != stage:
            stage, done = now, 0
            bars.start(STAGES[stage], None if stage == "migration" else total)
        bars.advance(steps - done)
        done = steps

    return show


@contextmanager
def _told() -> Iterator[None]:
    """What keeps a command from an answer, as one line and exit status 2. A request to end ends all
    runs first."""
    earlier = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        click.echo("xla-migrate: interrupted; the runs have ended, nothing was written", err=True)
        raise SystemExit(INTERRUPTED) from None
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("numpy", "torch", "torch_xla"):
            raise
        advice = f"{error.name} is not installed: pip install 'xla-migrate[run]'"
        raise click.UsageError(advice) from error
    except Exception as error:
        if not _is_answer(error):
            raise
        click.echo(f"xla-migrate: {terminal.shown(str(error))}", err=True)
        raise SystemExit(2) from error
    finally:
        signal.signal(signal.SIGTERM, earlier)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _is_answer(error: Exception) -> bool:
    from xla_migrate.verify.overlay import CannotCopy
    from xla_migrate.verify.runner import CannotRecord
    from xla_migrate.verify.trace_file import BadTrace

    return isinstance(error, (BadTrace, CannotCopy, CannotRecord, OSError))


def _finish(verdict: Verdict, given: dict[str, Any]) -> None:
    from xla_migrate.reports import verify_json, verify_text

    try:
        with _told():
            if given["json_file"]:
                Path(given["json_file"]).write_text(verify_json.report(verdict), encoding="utf-8")
            if given["html"]:
                Path(given["html"]).write_text(_page(verdict), encoding="utf-8")
    finally:  # a file that cannot be written does not cost the answer
        if given["output_format"] == "json":
            click.echo(verify_json.report(verdict), nl=False)
        else:
            _printer(given["color"]).print([*verify_text.lines(verdict), *map(_note, verdict.notes)])
    costly = verdict.performance is not None and bool(verdict.performance.problems)
    raise SystemExit(verdict.outcome.status or int(given["strict"] and costly))


def _page(verdict: Verdict) -> str:
    from xla_migrate.reports import verify_html

    results = {os.path.relpath(path): result for path, result in verdict.results.items()}
    diff = "".join(result.patch.unified_diff(name) for name, result in results.items() if result.changed)
    modules = {name: result.findings for name, result in results.items()}
    return verify_html.page(verdict, diff=diff, modules=modules)


def _recorded(trace: Trace, out: str) -> int:
    """Say what was recorded; the exit status."""
    steps = f"{len(trace.steps):,} optimizer step{'' if len(trace.steps) == 1 else 's'}"
    click.echo(f"{out}: {steps}, {trace.seconds:.1f} s")
    if trace.failure is None:
        return 0
    first, *more = trace.failure.message.splitlines() or [""]
    click.echo(terminal.shown(f"the run failed: {trace.failure.kind}: {first}"), err=True)
    for line in more[:MESSAGE_LINES]:
        click.echo(f"  {terminal.shown(line)}", err=True)
    if len(more) > MESSAGE_LINES:
        click.echo(f"  ... and {len(more) - MESSAGE_LINES} more lines, in the trace", err=True)
    for frame in trace.failure.frames:
        click.echo(f"  {terminal.shown(frame)}", err=True)
    return 2


def _note(note: str) -> terminal.Line:
    return [("note: ", "bold"), (terminal.shown(note), "")]


def _printer(color: str) -> terminal.Printer:
    from xla_migrate.cli.session import is_terminal

    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    automatic = is_terminal(sys.stdout) and not plain
    return terminal.Printer(sys.stdout, automatic if color == "auto" else color == "always")
