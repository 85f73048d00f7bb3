"""One run of the migration: read, migrate, write, report, and the exit status."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any, Literal, TextIO

from xla_migrate.adding_ignores import add_ignores
from xla_migrate.choosing import Policy
from xla_migrate.config import black_settings
from xla_migrate.documents import Document, gather, migrate
from xla_migrate.documents import write as write_changed
from xla_migrate.files import Content, FileProblem, default_mode, write
from xla_migrate.releases import Choice, resolve
from xla_migrate.reports import FOR_PEOPLE, report, summary
from xla_migrate.reports.progress import Progress
from xla_migrate.reports.run import Outline, Run
from xla_migrate.reports.terminal import Line, Printer, count, shown
from xla_migrate.work import Cache, How, default_folder
from xla_transforms.settings import Distributed

INTERRUPTED = 130
"""The exit status where the user stopped the run: that of a shell for SIGINT."""

_SEVERAL = 8

# At its end Python looks for garbage among all that the run left; the process takes it along anyway.
atexit.register(gc.freeze)


class Mode(Enum):
    """What becomes of the changes."""

    PREVIEW = "preview"
    CHECK = "check"
    DIFF = "diff"
    INPLACE = "inplace"
    OUTPUT = "output"
    STDOUT = "stdout"
    ADD_IGNORE = "add-ignore"

    @property
    def applies(self) -> bool:
        return self in (Mode.INPLACE, Mode.OUTPUT, Mode.STDOUT)


@dataclass(frozen=True)
class Options:
    """The command line, checked."""

    paths: tuple[str, ...]
    mode: Mode
    output: str | None
    stdin_filename: str | None
    target: str
    syncfree: Literal["amp", "always", "never"]
    distributed: Distributed
    fail_on: str
    output_format: str
    quiet: bool
    color: str
    policy: Policy = field(default_factory=Policy)
    excluded: Callable[[str], bool] | None = None
    interactive: bool = False
    max_changes: int | None = None
    jobs: int = 0
    cache: bool = True
    verified: Mapping[str, Any] | None = None

    @property
    def from_stdin(self) -> bool:
        return self.paths == ("-",)


def run(options: Options) -> int:
    """Do what ``options`` ask for and return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    chosen = resolve(options.target, _named(options))
    options = replace(options, target=chosen.target)
    from_stdin = options.from_stdin
    documents = [_from_stdin(options)] if from_stdin else gather(options.paths, options.excluded)
    try:
        _migrate(documents, options)
        _choose(documents, options)
        _apply(documents, options)
    except KeyboardInterrupt:
        return _interrupted(documents, options)
    done = _run(documents, options, chosen)
    printer = Printer(sys.stderr, coloured(sys.stderr, options.color))
    printer.print(line for document in done.failed for line in summary.failures(document))
    try:
        _report(done, options)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # click ends the run quietly
    except OSError as error:
        printer.print([summary.problem(FileProblem("standard output", str(error.strerror)))])
        _abandon(sys.stdout)
        return 2
    printer.print(_patched_elsewhere(done, options))
    return done.exit_code


def _from_stdin(options: Options) -> Document:
    name = options.stdin_filename or "<stdin>"
    return Document(name, Content(name, sys.stdin.buffer.read(), default_mode()))


def _migrate(documents: Sequence[Document], options: Options) -> None:
    from xla_transforms.engine import Settings

    black = black_settings(_named(options))
    cache = Cache(default_folder()) if options.cache and not options.from_stdin else None
    how = How(options.jobs, cache, partial(_progress, options))
    migrate(documents, Settings(options.target, options.syncfree, black, options.distributed), how)


@contextmanager
def _progress(options: Options, programs: int) -> Iterator[Callable[[], object]]:
    """Shows on a terminal how many programs are done, where there are several."""
    if programs < _SEVERAL or options.quiet or not is_terminal(sys.stderr):
        yield lambda: None
        return
    with Progress(sys.stderr, noun="program", passing=True) as progress:
        progress.start("migrating", programs)
        yield progress.advance


def _interrupted(documents: Sequence[Document], options: Options) -> int:
    """Say what was written before the user stopped the run, and give the exit status of an interruption."""
    written = [document for document in documents if document.written]
    lines: list[Line] = [[(shown(document.path), "bold"), (": migrated", "")] for document in written]
    ending = f"{count(len(written), 'file')} written, each whole" if written else "nothing was written"
    lines.append([("interrupted: ", "bold red"), (ending, "")])
    Printer(sys.stderr, coloured(sys.stderr, options.color)).print(lines)
    return INTERRUPTED


def _choose(documents: Sequence[Document], options: Options) -> None:
    """Leave out what the user does not want, and say so."""
    from xla_migrate import choosing

    choosing.choose(documents, options.policy)
    if options.interactive:
        from xla_migrate.cli.asking import ask

        ask(documents)
    if options.max_changes is not None:
        choosing.limit(documents, options.max_changes)
    choosing.tell(documents, options.policy)


def _named(options: Options) -> Sequence[str]:
    """The paths that tell which project the run is for."""
    return [options.stdin_filename or os.curdir] if options.from_stdin else options.paths


def _apply(documents: Sequence[Document], options: Options) -> None:
    if options.mode is Mode.INPLACE:
        write_changed(documents)
    if options.mode not in (Mode.OUTPUT, Mode.STDOUT, Mode.ADD_IGNORE):
        return
    for document in documents:
        if document.failed:
            continue
        if options.mode is Mode.OUTPUT:
            _write_output(document, options)
        elif options.mode is Mode.STDOUT:
            document.written = True
        elif options.mode is Mode.ADD_IGNORE:
            add_ignores(document)


def _write_output(document: Document, options: Options) -> None:
    assert options.output is not None
    assert document.outcome is not None
    assert document.content is not None
    try:
        write(options.output, document.outcome.data, document.content.mode)
        document.written = True
    except FileProblem as problem:
        document.problem = problem


def _abandon(stream: TextIO) -> None:
    """Let what a stream still holds go nowhere: Python would try to write it once more at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _report(run: Run, options: Options) -> None:
    if _beside(options):
        sys.stdout.flush()
        sys.stdout.buffer.writelines(_payload(run, options.mode))
        sys.stdout.buffer.flush()
    _stream(options).write(report(options.output_format, run))


def _beside(options: Options) -> bool:
    """Whether standard output holds a patch or a script, and the report stands beside it."""
    return options.mode in (Mode.DIFF, Mode.STDOUT) and options.output_format in FOR_PEOPLE


def _stream(options: Options) -> TextIO:
    return sys.stderr if _beside(options) else sys.stdout


def _run(documents: Sequence[Document], options: Options, chosen: Choice) -> Run:
    outlines: dict[Mode, Outline] = {Mode.PREVIEW: "diff", Mode.DIFF: "nothing", Mode.STDOUT: "nothing"}
    return Run(
        documents=documents,
        target=chosen,
        applies=options.mode.applies,
        fail_on="failure" if options.mode is Mode.ADD_IGNORE else options.fail_on,
        outline=outlines.get(options.mode, "files"),
        written_to=options.output if options.mode is Mode.OUTPUT else None,
        quiet=options.quiet,
        colour=coloured(_stream(options), options.color),
        verified=options.verified,
    )


def _payload(run: Run, mode: Mode) -> Iterator[bytes]:
    from xla_migrate.diff import bytes_diff

    for document in run.done:
        outcome = document.outcome
        if outcome is None:
            continue
        if mode is Mode.STDOUT:
            yield outcome.data
        elif document.changed:
            parts = outcome.original, outcome.data, outcome.source, outcome.code, outcome.edits
            yield bytes_diff(*parts, run.patch_name(document))


def _patched_elsewhere(run: Run, options: Options) -> Iterator[Line]:
    """Where a patch is to be applied, if that is not the current folder."""
    if options.mode is Mode.DIFF and run.changed and run.root != os.path.realpath(os.curdir):
        yield [("note: ", "bold"), (f"the patch is made from {shown(run.root)}: apply it there", "")]


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty()


def coloured(stream: TextIO, color: str) -> bool:
    """Whether a stream is written to in colour, ``color`` being auto, always or never."""
    if color == "auto":
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return is_terminal(stream) and not plain
    return color == "always"
