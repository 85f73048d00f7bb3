"""The migration of a tree as a report. Run as a module it is the child of a bot:

    python -m xla_migrate.bot.examine TREE HEAD BASE OUT [--contents]

It reads files and writes one; it knows no secret, and imports nothing of the tree.
"""

from __future__ import annotations

import base64
import os
import resource
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from xla_migrate.api import Result, migrate_project
from xla_migrate.bot import blocks, report, settings
from xla_migrate.bot.report import File, Group, Report
from xla_migrate.project import ProjectSettings, project_settings
from xla_transforms.findings import Change, Finding
from xla_transforms.targets import DEFAULT

MEMORY = 4_000_000_000
"""Bytes of address space that the child may use."""


def examine(tree: Path, head: str, base: str, *, contents: bool = False) -> Report:
    """Migrate a tree as its own ``pyproject.toml`` asks for it.

    The tree is that of the commit ``head`` with the configuration of ``base``. With ``contents`` the report
    holds each migrated file.
    """
    try:
        wanted, of_all = _settings(tree)
    except ValueError as error:
        said = str(error).replace(f"{tree}{os.sep}", "")
        return Report(head, base, DEFAULT, "xla-migrate .", 0, problems=(said,))
    target = wanted.target or of_all.target or DEFAULT
    command = _command(wanted, target)
    paths = [str(tree / path) for path in wanted.paths if _is_inside(tree, path)]
    if len(paths) < len(wanted.paths):
        missing = "[tool.xla-migrate.bot] paths: not all of them exist"
        return Report(head, base, target, command, 0, problems=(missing,))
    results = migrate_project(paths, target=target, distributed=wanted.distributed, settings=of_all)
    files = (_file(os.path.relpath(path, tree), result, contents) for path, result in sorted(results.items()))
    told = tuple(file for file in files if file.diff or file.findings)
    return Report(head, base, target, command, len(results), told)


def _settings(tree: Path) -> tuple[settings.Settings, ProjectSettings]:
    """What the tree's ``pyproject.toml`` says to the bot, and to every migration. Raises ``ValueError``."""
    path = tree / "pyproject.toml"
    wanted = settings.read(path.read_bytes() if path.is_file() else None)
    return wanted, project_settings([str(tree)])


def _is_inside(tree: Path, path: str) -> bool:
    return (path == "." or report.is_within(path.rstrip("/"))) and (tree / path).exists()


def _command(wanted: settings.Settings, target: str) -> str:
    return shlex.join(["xla-migrate", *wanted.paths, "--target", target, *wanted.spread])


def _file(path: str, result: Result, contents: bool) -> File:
    numbers = {change.id: number for number, change in enumerate(result.changes)}
    groups = () if result.failed else blocks.groups(result.patch)
    changed = result.changed and not result.failed
    return File(
        path=path,
        failed=result.failed,
        changes=tuple(map(_change, result.changes)),
        findings=tuple(map(_finding, result.findings)),
        diff=result.patch.unified_diff(path) if changed else "",
        groups=tuple(_group(group, numbers) for group in groups),
        content=base64.b64encode(result.data).decode() if contents and changed else "",
    )


def _group(group: blocks.Group, numbers: dict[int, int]) -> Group:
    parts = tuple(report.Block(block.start, block.end, block.lines) for block in group.blocks)
    return Group(parts, tuple(numbers[change] for change in group.changes))


def _change(change: Change) -> report.Change:
    line = change.spans[0].line if change.spans else 1
    return report.Change(change.code, change.name, change.message[:20_000], change.safety.value, line)


def _finding(finding: Finding) -> report.Finding:
    lines = finding.span.line, max(finding.span.line, finding.span.end_line)
    texts = finding.message[:20_000], finding.advice[:20_000]
    return report.Finding(finding.code, finding.name, finding.severity.label, *texts, *lines)  # type: ignore[arg-type]


def main(arguments: Sequence[str]) -> int:
    tree, head, base, out, *options = arguments
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found = examine(Path(tree), head, base, contents="--contents" in options)
    Path(out).write_bytes(report.write(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
