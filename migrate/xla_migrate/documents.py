"""Every file of one run, from its path to what became of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xla_migrate import migration
from xla_migrate.discovery import discover
from xla_migrate.files import FILE_RULE, Content, FileProblem, read, replace, uninterrupted
from xla_migrate.notebooks import is_notebook
from xla_migrate.work import ALONE, How
from xla_transforms.collecting import no_collections
from xla_transforms.findings import Finding, Span

if TYPE_CHECKING:
    from xla_migrate.choosing import LeftOut
    from xla_transforms.engine import Outcome, Settings
    from xla_transforms.mapping import ProjectMap

START = Span(0, 0, 1, 1, 1, 1)


@dataclass
class Document:
    """One file: what was read, what the engine made of it, and whether that was written.

    ``content`` is ``None`` where the file could not be read; ``problem`` is a failure to read or
    write it. Documents of one ``part`` belong together by their imports. ``left_out`` are changes that
    the engine would have made.
    """

    path: str
    content: Content | None = None
    outcome: Outcome | None = None
    problem: FileProblem | None = None
    written: bool = False
    left_out: tuple[LeftOut, ...] = ()
    part: int = -1

    @property
    def failed(self) -> bool:
        return self.problem is not None or (self.outcome is not None and self.outcome.failed)

    @property
    def changed(self) -> bool:
        """Whether the migration would alter a byte."""
        return self.outcome is not None and self.outcome.data != self.outcome.original

    @property
    def pending(self) -> bool:
        return self.changed and not self.written

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the engine found, and the failure to read or write the file as a finding."""
        found = self.outcome.findings if self.outcome else ()
        return (*found, file_finding(self.problem)) if self.problem else found

    def write(self) -> None:
        """Put the migrated bytes in place of the file; a failure becomes the document's problem."""
        assert self.content is not None
        assert self.outcome is not None
        try:
            replace(self.content, self.outcome.data)
        except FileProblem as problem:
            self.problem = problem
        else:
            self.written = True


def file_finding(problem: FileProblem) -> Finding:
    return Finding(FILE_RULE.code, FILE_RULE.name, FILE_RULE.severity, problem.message, START)


def gather(paths: Iterable[str], excluded: Callable[[str], bool] | None = None) -> list[Document]:
    """Read all files that ``paths`` stand for, but for those in their folders that are ``excluded``; what
    cannot be read carries its problem."""
    paths = list(paths)
    with no_collections():  # all of it stays
        found = discover(paths, excluded)
        named = set(map(os.path.normpath, paths))
        documents = [load(path) for path in found.files]
        documents += [d for d in map(_launcher, found.launchers) if d.findings or d.path in named]
        return documents + [Document(problem.path, problem=problem) for problem in found.problems]


def _launcher(path: str) -> Document:
    document = load(path)
    return launcher(document.content) if document.content is not None else document


def launcher(content: Content) -> Document:
    """A file that may start training, with what is found in it."""
    from xla_migrate.launches import examine
    from xla_transforms.outcome import Outcome

    text = content.data.decode("utf-8", "replace")
    found = examine(content.path, content.data)
    return Document(content.path, content, Outcome(content.path, content.data, text, text, findings=found))


def load(path: str) -> Document:
    """Read one file; a failure is kept in the document."""
    try:
        return Document(path, read(path))
    except FileProblem as problem:
        return Document(path, problem=problem)


def migrate(documents: Iterable[Document], settings: Settings, how: How = ALONE) -> None:
    """Give every document that was read and has none its outcome, all of them analysed as one run."""
    readable = {d.path: d for d in documents if d.content is not None and d.outcome is None}
    contents = {path: d.content.data for path, d in readable.items() if d.content is not None}
    done = migration.migrate(contents, settings, how)
    for path, outcome in done.outcomes.items():
        readable[path].outcome = outcome
    for number, paths in enumerate(done.parts):
        for path in paths:
            readable[path].part = number


def write(documents: Sequence[Document]) -> None:
    """Put the migrated bytes in place of the files that change, those of a program together.

    An interruption (Ctrl-C) waits for the program that is being written: ``KeyboardInterrupt`` then.
    """
    changed = [d for d in documents if d.changed and not d.failed]
    parts: dict[int, list[Document]] = {}
    for document in changed:
        parts.setdefault(document.part, []).append(document)
    for part in parts.values():
        with uninterrupted():
            for document in part:
                document.write()


def map_documents(documents: Iterable[Document], commands: Mapping[str, str]) -> ProjectMap:
    """What the programs of the scripts that were read do; ``commands``: the functions of installed ones."""
    from xla_transforms.engine import map_program

    scripts = (d for d in documents if d.outcome is None and not is_notebook(d.path))
    readable = [d for d in scripts if d.content is not None]
    return map_program({d.path: d.content.data for d in readable if d.content}, commands=commands)
