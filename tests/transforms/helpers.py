"""What the tests of the passes share: run the engine over a snippet, compare, run again.

The snippets are dedented, so that they may stand in the tests at the tests' own indentation.
"""

from __future__ import annotations

import ast
import difflib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import dedent
from types import ModuleType

import libcst as cst

from xla_transforms import engine, pipeline
from xla_transforms.context import Context
from xla_transforms.findings import Finding
from xla_transforms.plan import Plan
from xla_transforms.program import Program
from xla_transforms.roles import Roles
from xla_transforms.settings import Settings
from xla_transforms.source import Source


def migrate(code: str, *passes: str, settings: Settings | None = None) -> engine.Outcome:
    """The outcome for a snippet, with all passes or only those named (``"device"``, ``"amp"``)."""
    with only(*passes):
        outcome = engine.migrate_bytes(dedent(code).encode(), settings, "train.py")
    assert all(finding.code != "XLA006" for finding in outcome.findings), outcome.findings
    return outcome


def check_noop(code: str, *passes: str, settings: Settings | None = None) -> engine.Outcome:
    """The snippet comes back as it is, byte for byte."""
    ast.parse(dedent(code))
    outcome = migrate(code, *passes, settings=settings)
    assert not outcome.failed, outcome.findings
    _equal(outcome.data.decode(), dedent(code))
    return outcome


def check_transformed(
    code: str,
    expected: str,
    *passes: str,
    rules: set[str] | None = None,
    settings: Settings | None = None,
) -> engine.Outcome:
    """The snippet becomes ``expected``, which stays as it is when migrated again.

    ``rules`` are the codes of the rules that made the changes, where a test wants to pin them down.
    """
    assert dedent(code) != dedent(expected), "use check_noop"
    ast.parse(dedent(code))
    ast.parse(dedent(expected))
    outcome = migrate(code, *passes, settings=settings)
    _equal(outcome.data.decode(), dedent(expected))
    if rules is not None:
        assert {change.code for change in outcome.changes} == rules
    again = migrate(expected, *passes, settings=settings)
    _equal(again.data.decode(), dedent(expected))
    return outcome


def findings(code: str, *passes: str, settings: Settings | None = None) -> list[tuple[str, int]]:
    """Code and line of every finding that asks for something, in source order."""
    return [(f.code, f.span.line) for f in open_findings(migrate(code, *passes, settings=settings))]


def open_findings(outcome: engine.Outcome) -> list[Finding]:
    """The findings about what the migration did not do itself."""
    return [finding for finding in outcome.findings if not finding.fixed]


def run_only(code: str, *passes: str, settings: Settings | None = None) -> str:
    """The migrated text of a snippet under the named passes alone."""
    return migrate(code, *passes, settings=settings).data.decode()


def context_of(code: str, settings: Settings | None = None) -> Context:
    """The context that a pass gets for a snippet, with an empty plan."""
    program = Program([("train", Source(dedent(code), "train.py"))])
    index = program.modules["train"]
    settings = settings or Settings()
    roles = Roles(program, replicated=False if settings.distributed is False else None)
    return Context(index, roles, Plan(index), settings)


def expression(context: Context, text: str, number: int = 0) -> cst.BaseExpression:
    """The ``number``-th expression of a context's module that is written as ``text``."""
    source = context.index.source
    found = [
        node
        for nodes in list(context.index.nodes.values())
        for node in nodes
        if isinstance(node, cst.BaseExpression) and source.text[slice(*source.offsets(node))] == text
    ]
    assert found, f"no expression {text!r}"
    return sorted(found, key=source.offsets)[number]


@contextmanager
def only(*passes: str) -> Iterator[None]:
    """Let the engine run the named passes alone; all of them where none is named."""
    before = pipeline.PASSES
    if passes:
        pipeline.PASSES = tuple(pass_named(name) for name in passes)
    try:
        yield
    finally:
        pipeline.PASSES = before


def pass_named(name: str) -> ModuleType:
    __import__(f"xla_transforms.passes.{name}")
    return sys.modules[f"xla_transforms.passes.{name}"]


def _equal(actual: str, expected: str) -> None:
    lines = difflib.unified_diff(
        expected.splitlines(), actual.splitlines(), "expected", "actual", lineterm=""
    )
    assert actual == expected, "\n" + "\n".join(lines)
