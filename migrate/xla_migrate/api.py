"""The library: migrate a text, a file or a project.

Nothing here raises on bad input: what cannot be read as Python comes back as it was, with a finding
that says where and why. Wrong arguments (an unknown target, a number for a text) do raise.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from xla_migrate import migration
from xla_migrate.choosing import LeftOut, Policy, choose, tell
from xla_migrate.config import black_settings
from xla_migrate.documents import Document, gather, load, migrate
from xla_migrate.documents import write as write_changed
from xla_migrate.notebooks import is_notebook
from xla_migrate.patch import Patch
from xla_migrate.project import ProjectSettings
from xla_migrate.releases import existing, resolve
from xla_migrate.work import How
from xla_transforms.encoding import declared
from xla_transforms.engine import Outcome, Settings
from xla_transforms.findings import Change, Finding, Severity, Span
from xla_transforms.formatting import BlackSettings
from xla_transforms.rules import all_rules
from xla_transforms.settings import Distributed
from xla_transforms.targets import DEFAULT as DEFAULT_TARGET
from xla_transforms.targets import target as known_target

Syncfree = Literal["amp", "always", "never"]
_BLACK = BlackSettings()
_UNSET = ProjectSettings()


@dataclass(frozen=True)
class Result:
    """What the migration of one text gives.

    ``code`` is the migrated text and ``data`` the same in the encoding of the file; both are the
    input where nothing changes. ``changes`` tells rule, message, safety and places of each change,
    ``findings`` what else the reader must know; lines and offsets are those of the input.
    ``left_out`` are changes that were not made, with the reason.
    ``failed`` is true where the input could not be processed: a finding of severity ``ERROR`` then
    says why.
    """

    path: str
    code: str
    data: bytes
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]
    patch: Patch
    failed: bool
    left_out: tuple[LeftOut, ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.patch)


def migrate_source(
    code: str | bytes,
    *,
    target: str | None = None,
    path: str = "<unknown>",
    syncfree: Syncfree = "amp",
    distributed: Distributed | None = None,
    black: BlackSettings | None = _BLACK,
    unsafe_fixes: bool = False,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    settings: ProjectSettings = _UNSET,
) -> Result:
    """Migrate one script given as text or as the bytes of its file; a notebook where ``path`` ends so.

    ``target`` is a torch_xla release (``"2.9"``, the default), ``"sagemaker"``, or ``"auto"``: the one that
    the project around ``path`` asks for; else ``path`` only names the script in messages;
    ``syncfree`` says where optimizers get their syncfree twins: under mixed precision, always or
    never; ``distributed`` whether the result trains in replicas, one for each device, by default where
    the script trained in several processes. Changed lines of a script that black would leave alone
    under the settings ``black`` are formatted by black, with ``None`` never. Changes that may alter what
    the script does are made with ``unsafe_fixes``; ``select`` (all by default) and ``ignore`` name rules as
    the options of the command line do. Where an argument says nothing ``settings`` count: those of a project
    are what :func:`project_settings` reads, which nothing here calls. Raises ``ValueError`` for an unknown
    target or rule.
    """
    policy = Policy.of(settings, select, ignore, unsafe_fixes)
    how = _how(settings, target, existing(path), syncfree, distributed, black)
    if not isinstance(code, str):
        outcome = migration.migrate({path: bytes(memoryview(code))}, how).outcomes[path]
    else:
        try:
            encoding = "utf-8" if is_notebook(path) else declared(code)
            outcome = migration.migrate({path: code.encode(encoding)}, how).outcomes[path]
        except UnicodeEncodeError as error:
            outcome = _failed(path, _unencodable(code, error))
        outcome = replace(outcome, source=code, code=code) if outcome.failed else outcome
    document = Document(path, outcome=outcome)
    _choose([document], policy)
    return _document_result(document)


def migrate_file(
    path: str | os.PathLike[str],
    *,
    write: bool = False,
    target: str | None = None,
    syncfree: Syncfree = "amp",
    distributed: Distributed | None = None,
    black: BlackSettings | None = None,
    unsafe_fixes: bool = False,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    settings: ProjectSettings = _UNSET,
) -> Result:
    """Migrate one file, and with ``write=True`` put the result in its place.

    Without ``black`` the settings of the file's own project count. A file that cannot be read or
    written gives a failed result.
    """
    name = os.fspath(path)
    policy = Policy.of(settings, select, ignore, unsafe_fixes)
    how = _how(settings, target, [name], syncfree, distributed, black or black_settings([name]))
    return _document_result(*_run([load(name)], how, policy, write))


def migrate_project(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    write: bool = False,
    target: str | None = None,
    syncfree: Syncfree = "amp",
    distributed: Distributed | None = None,
    black: BlackSettings | None = None,
    unsafe_fixes: bool = False,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    settings: ProjectSettings = _UNSET,
    jobs: int = 1,
) -> dict[str, Result]:
    """Migrate files and folders as one program, and with ``write=True`` put the results in place.

    Folders are walked as git sees them, and without what ``settings`` exclude. The results come by path; one
    for a path that cannot be read is a failed one. ``jobs`` processes share the work, 0 means as many as
    there are processors where there is enough to do.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    names = [os.fspath(path) for path in given]
    how = _how(settings, target, names, syncfree, distributed, black or black_settings(names))
    policy = Policy.of(settings, select, ignore, unsafe_fixes)
    documents = _run(gather(names, settings.excluded), how, policy, write, jobs)
    return {document.path: _document_result(document) for document in documents}


def _how(
    settings: ProjectSettings,
    target: str | None,
    paths: list[str],
    syncfree: Syncfree,
    distributed: Distributed | None,
    black: BlackSettings | None,
) -> Settings:
    """What the engine is told: the arguments and, where they say nothing, the settings of a project."""
    chosen = resolve(target or settings.target or DEFAULT_TARGET, paths).target
    known_target(chosen)  # raises for an unknown one
    if distributed is None:
        distributed = "auto" if settings.distributed is None else settings.distributed
    return Settings(chosen, syncfree, black, distributed)


def _choose(documents: list[Document], policy: Policy) -> None:
    choose(documents, policy)
    tell(documents, policy)


def _run(
    documents: list[Document], how: Settings, policy: Policy, write: bool, jobs: int = 1
) -> list[Document]:
    migrate(documents, how, How(jobs))
    _choose(documents, policy)
    if write:
        write_changed(documents)
    return documents


def _document_result(document: Document) -> Result:
    outcome = document.outcome or _failed(document.path)
    outcome = replace(outcome, findings=document.findings, failed=document.failed)
    return Result(
        path=outcome.path,
        code=outcome.code,
        data=outcome.data,
        changes=outcome.changes,
        findings=outcome.findings,
        patch=Patch(outcome),
        failed=outcome.failed,
        left_out=document.left_out,
    )


def _failed(path: str, *findings: Finding) -> Outcome:
    return Outcome(path=path, original=b"", findings=findings, failed=True)


def _unencodable(code: str, error: UnicodeEncodeError) -> Finding:
    line = code.count("\n", 0, error.start) + 1
    column = error.start - code.rfind("\n", 0, error.start)
    span = Span(error.start, error.start + 1, line, column, line, column + 1)
    rule = next(rule for rule in all_rules() if rule.code == "XLA002")
    message = f"character U+{ord(code[error.start]):04X} does not exist in {error.encoding}"
    return Finding(rule.code, rule.name, Severity.ERROR, message, span)
