"""One run of the migration: read, migrate, write, report, and the exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from typing import Literal, TextIO

from xla_migrate.config import black_settings
from xla_migrate.documents import Document, gather, migrate
from xla_migrate.files import Content, FileProblem, default_mode, write
from xla_migrate.releases import Choice, resolve
from xla_migrate.reports import text
from xla_transforms.findings import Severity
from xla_transforms.settings import Distributed


class Mode(Enum):
    """What becomes of the changes."""

    PREVIEW = "preview"
    CHECK = "check"
    DIFF = "diff"
    INPLACE = "inplace"
    OUTPUT = "output"
    STDOUT = "stdout"

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
    json: bool
    quiet: bool
    color: str

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
    documents = [_from_stdin(options)] if options.from_stdin else gather(options.paths)
    _migrate(documents, options)
    _apply(documents, options)
    code = exit_code(documents, options)
    complaints = printer(sys.stderr, options.color)
    complaints.print(line for document in documents for line in text.failures(document))
    try:
        _report(documents, options, chosen, code)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # click ends the run quietly
    except OSError as error:
        complaints.print([text.problem(FileProblem("standard output", str(error.strerror)))])
        return 2
    return code


def exit_code(documents: Sequence[Document], options: Options) -> int:
    """2 for a failure, 1 for changes not applied or findings left, else 0."""
    if any(document.failed for document in documents):
        return 2
    pending = not options.mode.applies and any(document.changed for document in documents)
    left = [f.severity for document in documents for f in document.findings if not f.fixed]
    if options.fail_on != "never":
        limit = Severity[options.fail_on.upper()]
        pending = pending or any(severity >= limit for severity in left)
    return int(pending)


def _from_stdin(options: Options) -> Document:
    name = options.stdin_filename or "<stdin>"
    return Document(name, Content(name, sys.stdin.buffer.read(), default_mode()))


def _migrate(documents: Sequence[Document], options: Options) -> None:
    from xla_transforms.engine import Settings

    black = black_settings(_named(options))
    migrate(documents, Settings(options.target, options.syncfree, black, options.distributed))


def _named(options: Options) -> Sequence[str]:
    """The paths that tell which project the run is for."""
    return [options.stdin_filename or os.curdir] if options.from_stdin else options.paths


def _apply(documents: Sequence[Document], options: Options) -> None:
    for document in documents:
        if document.failed:
            continue
        if options.mode is Mode.INPLACE and document.changed:
            document.write()
        elif options.mode is Mode.OUTPUT:
            _write_output(document, options)
        elif options.mode is Mode.STDOUT:
            document.written = True


def _write_output(document: Document, options: Options) -> None:
    assert options.output is not None
    assert document.outcome is not None
    assert document.content is not None
    try:
        write(options.output, document.outcome.data, document.content.mode)
        document.written = True
    except FileProblem as problem:
        document.problem = problem


def _report(documents: Sequence[Document], options: Options, chosen: Choice, code: int) -> None:
    if options.json:
        from xla_migrate.reports.json import report

        sys.stdout.write(report(documents, chosen, code))
    elif options.mode in (Mode.DIFF, Mode.STDOUT):
        sys.stdout.flush()
        sys.stdout.buffer.writelines(_payload(documents, options.mode))
        sys.stdout.buffer.flush()
        if not options.quiet:
            printer(sys.stderr, options.color).print(_remarks(documents, options, chosen))
    else:
        output = printer(sys.stdout, options.color)
        output.print(_outline(documents, options))
        if not options.quiet:
            output.print(_remarks(documents, options, chosen))


def _payload(documents: Sequence[Document], mode: Mode) -> Iterator[bytes]:
    from xla_migrate.diff import bytes_diff

    for document in documents:
        outcome = document.outcome
        if outcome is None or document.failed:
            continue
        if mode is Mode.STDOUT:
            yield outcome.data
        elif document.changed:
            parts = outcome.original, outcome.data, outcome.source, outcome.code, outcome.edits
            yield bytes_diff(*parts, patch_path(document.path))


def _outline(documents: Sequence[Document], options: Options) -> Iterator[text.Line]:
    """The diffs of a preview, else a line for each changed file."""
    for document in documents:
        if document.failed or not document.changed:
            continue
        if options.mode is Mode.PREVIEW:
            yield from text.difference(document, patch_path(document.path))
        elif not options.quiet:
            yield text.changed_file(document, _verb(options.mode))


def _remarks(documents: Sequence[Document], options: Options, chosen: Choice) -> Iterator[text.Line]:
    done, mode = [document for document in documents if not document.failed], options.mode
    name = options.output if mode is Mode.OUTPUT else None
    yield from chain.from_iterable(text.findings(document, name) for document in done)
    ending = "" if mode is not Mode.PREVIEW else "; nothing written (--inplace writes)"
    if chosen.reason:
        yield text.target(chosen.target, chosen.reason)
    yield text.summary(documents, _verb(mode), ending if any(d.changed for d in done) else "")


def _verb(mode: Mode) -> str:
    return "migrated" if mode.applies else "to migrate"


def patch_path(path: str) -> str:
    """What a patch calls a file: relative to the current folder, absolute where it lies outside.

    git refuses to patch through a symbolic link, so a link is named by its target.
    """
    if not os.path.exists(path):  # standard input
        return path
    real, here = os.path.realpath(path), os.path.realpath(os.curdir)
    inside = real.startswith(os.path.join(here, ""))
    return (os.path.relpath(real, here) if inside else real).replace(os.sep, "/")


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty()


def printer(stream: TextIO, color: str) -> text.Printer:
    """What writes to a stream, in colour where ``color`` (auto, always, never) says so."""
    if color == "auto":
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return text.Printer(stream, is_terminal(stream) and not plain)
    return text.Printer(stream, color == "always")
