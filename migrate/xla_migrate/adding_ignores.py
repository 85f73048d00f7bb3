"""``--add-ignore``: a comment at each place of which a finding tells something, that it is to be ignored."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from xla_migrate.documents import Document
from xla_migrate.files import FileProblem, replace
from xla_migrate.launches import is_launcher
from xla_migrate.notebooks import NotebookOutcome
from xla_migrate.notebooks.ignoring import with_cell_ignores
from xla_transforms.check import parse
from xla_transforms.comments import comments
from xla_transforms.findings import Finding
from xla_transforms.ignores import Ignore, ignores, logical_lines

MARK = "# xla-migrate: ignore"


def add_ignores(document: Document) -> None:
    """Write the comments for all findings that are left into a script or notebook, and nothing else.

    A failure becomes the document's problem. What a comment cannot reach stays as it is.
    """
    outcome, content = document.outcome, document.content
    if outcome is None or outcome.failed or content is None or is_launcher(document.path):
        return
    open_ones = [one for one in outcome.findings if not (one.fixed or one.code.startswith("XLA00"))]
    if isinstance(outcome, NotebookOutcome):
        text = with_cell_ignores(outcome, open_ones, with_ignores)
    else:
        wanted: dict[int, list[Finding]] = {}
        for finding in open_ones:
            wanted.setdefault(finding.span.line, []).append(finding)
        text = with_ignores(outcome.source, wanted)
    if text == outcome.source:
        return
    try:
        replace(content, text.encode(outcome.encoding))
    except FileProblem as problem:
        document.problem = problem


def with_ignores(text: str, found: Mapping[int, Sequence[Finding]]) -> str:
    """A script with a comment at the end of each statement (or head of one) that findings by line speak of.

    As it was, where that would alter its code.
    """
    wanted: dict[int, list[str]] = {}
    statements = logical_lines(text)
    for line, findings in found.items():
        end = next((last for first, last in statements if first <= line <= last), 0)
        codes = wanted.setdefault(end, [])
        codes += [code for code in dict.fromkeys(one.code for one in findings) if code not in codes]
    lines = text.split("\n")
    before = {one.span.line: one for one in ignores(text) if not one.kind}
    commented = {text.count("\n", 0, offset) + 1: offset for offset, _ in comments(text)}
    for line, codes in wanted.items():
        if line:
            lines[line - 1] = _line(lines[line - 1], codes, before.get(line), line in commented)
    new = "\n".join(lines)
    return new if _same_code(text, new) else text


def _line(text: str, codes: list[str], there: Ignore | None, commented: bool) -> str:
    bare = text.rstrip("\r")
    end = text[len(bare) :]
    if there is not None:
        if not there.rules:
            return text
        start = bare.index("[", there.span.column - 1)
        known = [*there.rules, *(code for code in codes if code not in there.rules)]
        return f"{bare[: start + 1]}{', '.join(known)}{bare[bare.index(']', start) :]}{end}"
    space = " " if commented else "  "
    return f"{bare.rstrip()}{space}{MARK}[{', '.join(codes)}]{end}"


def _same_code(before: str, after: str) -> bool:
    """Whether two texts are the same to Python."""
    one, other = parse(before), parse(after)
    return one is not None and other is not None and ast.dump(one) == ast.dump(other)
