"""The example of each rule: a small native script, and what becomes of it for each target.

An example is a file ``examples/CODE.txt`` of this package. It may begin with a line ``# options:`` that has
``--distributed`` and ``--target RELEASE`` as on the command line, and has one ``# targets:`` that
``scripts/generate_docs`` writes: the targets for which the rule has something to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from xla_transforms.findings import Rule
from xla_transforms.settings import Distributed
from xla_transforms.targets import DEFAULT, TARGETS

_HEAD = re.compile(r"# (options|targets): ?(.*)\n")


@dataclass(frozen=True)
class Example:
    """A native script that a rule has something to say about. ``target`` is the one it is written for."""

    text: str
    distributed: Distributed = "auto"
    target: str = DEFAULT
    targets: tuple[str, ...] = ()


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
    from xla_migrate.api import migrate_source

    result = migrate_source(
        given.text, path="train.py", target=target, distributed=given.distributed, unsafe_fixes=True
    )
    found = [finding for finding in result.findings if finding.code == rule.code]
    if not found and rule.code not in {change.code for change in result.changes}:
        return None
    told = [f"line {f.span.line}: {f.severity.label}: {f.message}{_advice(f.advice)}" for f in found]
    diff = result.patch.unified_diff("train.py", context=2)
    return diff.partition("\n")[2].partition("\n")[2], tuple(told)


def _advice(text: str) -> str:
    return f" ({text})" if text else ""


def explained(rule: Rule) -> Iterator[str]:
    """A rule in lines of text: what it does, why, and its example."""
    yield f"{rule.code} {rule.name}"
    yield f"severity {rule.severity.label}, safety {rule.safety.value}, effort {rule.effort.value}"
    yield f"\n{rule.summary}\n\n{rule.why}"
    given = example(rule.code)
    if given is None:
        return
    for one in shown(rule, given):
        yield f"\nFor {', '.join(one.targets)}:\n"
        yield from (f"    {line}" for line in (one.diff or given.text).rstrip("\n").split("\n"))
        yield from (f"    -> {text}" for text in one.told)
