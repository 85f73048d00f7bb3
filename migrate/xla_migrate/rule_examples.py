"""The example of each rule: small native files, and what becomes of them for each target.

An example is a file ``examples/CODE.txt`` of this package. It may begin with a line ``# options:`` that has
``--distributed`` and ``--target RELEASE`` as on the command line, and has one ``# targets:`` that
``scripts/generate_docs`` writes: the targets for which the rule has something to say. It is a script; or
files, each behind a line ``# file: NAME``, the cells of a notebook behind ``# cell: code`` or ``markdown``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from xla_transforms.findings import Rule
from xla_transforms.settings import Distributed
from xla_transforms.targets import DEFAULT, TARGETS

if TYPE_CHECKING:
    from xla_migrate.documents import Document

WITHOUT = {
    "XLA003": "the parser's faults that it guards against are not known for any short file",
    "XLA004": "no script is known that brings it about: it guards against faults of the tool",
    "XLA005": "it speaks of files and disks, not of code",
    "XLA006": "no script is known that brings it about: it tells of a fault of the tool",
    "XLA009": "no short program is known that brings it about",
    "XLA016": "only a program of hundreds of files brings it about",
}
"""The rules that have no example, each with the reason."""

SCRIPT = "train.py"
_HEAD = re.compile(r"# (options|targets): ?(.*)\n")
_FILE = re.compile(r"^# file: (.+)\n", re.MULTILINE)
_CELL = re.compile(r"^# cell: (code|markdown)\n", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """Native files that a rule has something to say about. ``target`` is the one they are written for."""

    text: str
    distributed: Distributed = "auto"
    target: str = DEFAULT
    targets: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, str]:
        """The files by name, as they are written in the example."""
        parts = _FILE.split(self.text)
        return {SCRIPT: self.text} if len(parts) == 1 else dict(zip(parts[1::2], parts[2::2], strict=True))


@dataclass(frozen=True)
class Shown:
    """What becomes of an example for some targets: a diff of it, and what the rule tells about it."""

    targets: tuple[str, ...]
    diff: str
    told: tuple[str, ...]


def example(code: str) -> Example | None:
    """The example of a rule; ``None`` where it has none."""
    path = files("xla_migrate").joinpath("examples", f"{code}.txt")
    if not path.is_file():
        return None
    text, given = path.read_text(encoding="utf-8"), {}
    while (match := _HEAD.match(text)) is not None:
        given[match[1]] = match[2].split()
        text = text[match.end() :]
    options = given.get("options", [])
    target = options[options.index("--target") + 1] if "--target" in options else DEFAULT
    distributed: Distributed = True if "--distributed" in options else "auto"
    return Example(text, distributed, target, tuple(given.get("targets", ())))


def shown(rule: Rule, given: Example) -> list[Shown]:
    """What becomes of an example, once for all targets that say the same; those that say nothing left out."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for target in sorted(TARGETS, key=lambda name: name != given.target):
        result = _of_target(rule, given, target)
        if result is not None:
            found.setdefault(result, []).append(target)
    return [Shown(tuple(t for t in TARGETS if t in targets), *result) for result, targets in found.items()]


def _of_target(rule: Rule, given: Example, target: str) -> tuple[str, tuple[str, ...]] | None:
    """Diff and findings for one target, ``None`` where the rule neither changes nor tells anything."""
    documents = _migrated(given, target)
    told = tuple(text for document in documents for text in _told(rule, document))
    changes = [change for d in documents if d.outcome is not None for change in d.outcome.changes]
    if not told and rule.code not in {change.code for change in changes}:
        return None
    diff = "".join(text for document in documents for text in _diff(document))
    alone = len(documents) == 1 and documents[0].path == SCRIPT
    return diff.partition("\n")[2].partition("\n")[2] if alone else diff, told


def _migrated(given: Example, target: str) -> list[Document]:
    from xla_migrate.choosing import Policy, choose, tell
    from xla_migrate.documents import Document, launcher, migrate
    from xla_migrate.files import Content
    from xla_migrate.launches import is_launcher
    from xla_transforms.engine import Settings
    from xla_transforms.formatting import BlackSettings

    contents = [Content(name, _data(name, text), 0o644) for name, text in given.files.items()]
    documents = [launcher(one) if is_launcher(one.path) else Document(one.path, one) for one in contents]
    migrate(documents, Settings(target, "amp", BlackSettings(), given.distributed))
    policy = Policy(unsafe=True)
    choose(documents, policy)
    tell(documents, policy)
    return documents


def _data(name: str, text: str) -> bytes:
    """The bytes of a file; a notebook is made of its cells, where it is written as such."""
    kinds = _CELL.split(text)[1:]
    if not (name.endswith(".ipynb") and kinds):
        return text.encode()
    cells: list[dict[str, object]] = [
        {"cell_type": kind, "metadata": {}, "source": source.removesuffix("\n").splitlines(keepends=True)}
        for kind, source in zip(kinds[::2], kinds[1::2], strict=True)
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}, indent=1).encode()


def _told(rule: Rule, document: Document) -> Iterator[str]:
    from xla_migrate.choosing import place

    whose = "" if document.path == SCRIPT else f"{document.path}, "
    for finding in document.findings:
        if finding.code == rule.code:
            where = f"{whose}{place(document, finding.span)}"
            yield f"{where}: {finding.severity.label}: {finding.message}{_advice(finding.advice)}"


def _diff(document: Document) -> Iterator[str]:
    from xla_migrate.notebooks import NotebookOutcome
    from xla_migrate.notebooks.showing import differences
    from xla_migrate.patch import Patch

    if isinstance(document.outcome, NotebookOutcome):
        yield from differences(document.outcome, document.path)
    elif document.outcome is not None and document.changed:
        yield Patch(document.outcome).unified_diff(document.path, context=2)


def _advice(text: str) -> str:
    return f" ({text})" if text else ""


def explained(rule: Rule) -> Iterator[str]:
    """A rule in lines of text: what it does, why, and its example."""
    yield f"{rule.code} {rule.name}"
    yield f"severity {rule.severity.label}, safety {rule.safety.value}, effort {rule.effort.value}"
    yield f"\n{rule.summary}\n\n{rule.why}"
    given = example(rule.code)
    if given is None:
        yield f"\nIt has no example: {WITHOUT[rule.code]}." if rule.code in WITHOUT else ""
        return
    for one in shown(rule, given):
        yield f"\nFor {', '.join(one.targets)}:\n"
        yield from (f"    {line}" for line in (one.diff or given.text).rstrip("\n").split("\n"))
        yield from (f"    -> {text}" for text in one.told)
