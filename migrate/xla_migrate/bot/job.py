"""One look at a pull request: fetch, lay out, migrate in a child, and verify where that is allowed."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from xla_migrate.bot import children, report, settings
from xla_migrate.bot.report import Report, Verdict
from xla_migrate.bot.workspace import CannotFetch, Limits, TooLarge, Workspace

TREE = "pull-request"  # no name of a module: the child starts in the folder above


class CannotExamine(Exception):
    """There is no report; the text says why."""


@dataclass(frozen=True)
class Source:
    """Where the two commits come from; ``token`` may read them and goes to git alone."""

    address: str
    head: str
    base: str
    token: str = ""


@dataclass(frozen=True)
class Conditions:
    """``seconds`` for the migration. ``sandbox`` is the command that starts programs where they can do no
    harm (empty: here); with ``None`` no code of a pull request is run, whatever its repository asks for.
    ``folder`` is where the work folders are made, by default the system's own; ``stop`` ends the work."""

    seconds: float = 600.0
    limits: Limits = field(default_factory=Limits)
    sandbox: Sequence[str] | None = None
    folder: Path | None = None
    stop: Callable[[], bool] = lambda: False


def look(source: Source, conditions: Conditions, *, contents: bool = False) -> Report:
    """The report on ``source.head``. Raises ``CannotExamine`` and ``children.Stopped``."""
    with tempfile.TemporaryDirectory(prefix="xla-migrate-bot-", dir=conditions.folder) as name, _told():
        folder = Path(name)
        workspace = Workspace(folder, conditions.limits, conditions.stop)
        workspace.fetch(source.address, [source.head, source.base], source.token)
        left = workspace.lay_out(source.head, source.base, folder / TREE)
        found = _examined(folder, source, conditions, contents)
        found = replace(found, problems=(*found.problems, *left[:20]))
        return _verified(workspace, folder, source, conditions, found)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (CannotFetch, TooLarge, children.TooLong, report.BadReport, OSError) as error:
        raise CannotExamine(str(error)[:2000]) from error


def _examined(folder: Path, source: Source, conditions: Conditions, contents: bool) -> Report:
    out = folder / "report.json"
    command = [sys.executable, "-m", "xla_migrate.bot.examine", TREE, source.head, source.base, out.name]
    ended = _child([*command, "--contents"] if contents else command, folder, conditions, conditions.seconds)
    if ended.status or not out.is_file():
        last = (ended.err.strip().splitlines() or [f"it ended with status {ended.status}"])[-1]
        raise CannotExamine(f"the migration failed: {last}")
    if out.stat().st_size > report.LARGEST and not contents:
        raise CannotExamine("the migration has more to say than fits into a report")
    return report.read(out.read_bytes())


def _child(command: Sequence[str], folder: Path, conditions: Conditions, seconds: float) -> children.Ended:
    env = children.environment(folder, **_paths())
    return children.run(command, folder, timeout=seconds, env=env, stop=conditions.stop)


def _paths() -> dict[str, str]:
    """The child finds this package where its parent has it."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path and os.path.isabs(path))}


def _verified(
    workspace: Workspace, folder: Path, source: Source, conditions: Conditions, found: Report
) -> Report:
    try:
        asked = settings.read(workspace.read(source.base, "pyproject.toml"))
    except settings.BadSettings:
        return found  # told by the migration
    wanted = asked.verify
    if wanted is None or not found.changed:
        return found
    reason = _refusal(wanted, conditions)
    if reason:
        return replace(found, problems=(*found.problems, reason))
    tree = folder / "to-run"
    workspace.lay_out(source.head, source.base, tree, everything=True)
    return replace(found, verdict=_verdict(asked, folder, tree, conditions, found.target))


def _refusal(wanted: settings.Verification, conditions: Conditions) -> str:
    if not wanted.run_code:
        return "verify was not run: run-code = true in [tool.xla-migrate.bot.verify] would allow it"
    if conditions.sandbox is None:
        return "verify was not run: this bot runs no code of pull requests"
    outside = "verify was not run: its script is outside of the repository"
    return "" if report.is_within(wanted.script) else outside


def _verdict(
    asked: settings.Settings, folder: Path, tree: Path, conditions: Conditions, target: str
) -> Verdict:
    wanted = asked.verify
    assert wanted is not None
    out = folder / "verdict.json"
    options = ["--steps", str(wanted.steps), "--timeout", str(wanted.timeout), "--target", target]
    options += asked.spread
    told = ["xla-migrate", "verify", wanted.script, *options, "--", *wanted.arguments]
    command = [
        *(conditions.sandbox or ()),
        sys.executable,
        "-m",
        "xla_migrate",
        *told[1:3],
        "--json",
        str(out),
        *told[3:],
    ]
    env = children.environment(folder, **_paths())
    try:
        children.run(command, tree, timeout=4.0 * wanted.timeout, env=env, stop=conditions.stop)
        said = json.loads(out.read_bytes()[: report.LARGEST])
        outcome, reason = said["outcome"], str(said["headline"] or said["reason"])[:2000]
    except (children.TooLong, OSError, ValueError, TypeError, KeyError):
        outcome, reason = "not comparable", "the runs came to no end, or left no answer"
    return Verdict(outcome, reason, shlex.join(told))
