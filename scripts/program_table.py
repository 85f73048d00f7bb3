"""The real programs that scripts/programs runs natively and migrated, and the table of what came out."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from program_data import MAKERS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).with_name("programs.toml")


@dataclass(frozen=True)
class Program:
    """A script of a public repository at a commit, and how it is run.

    ``folder`` is the working directory and ``data`` says what is made before, the name of a maker for each
    folder, both from the root of the repository; ``environment`` are variables, in whose values ``{root}`` is
    that root. ``steps`` ends each run after so many optimizer steps.
    """

    name: str
    repository: str
    commit: str
    script: str
    arguments: str = ""
    folder: str = "."
    data: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1
    steps: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name of a folder with a checkout."""
        return f"{self.repository.replace('/', '-')}-{self.commit[:8]}"

    @property
    def options(self) -> list[str]:
        """What stands behind ``xla-migrate verify``."""
        steps = ["--steps", str(self.steps)] if self.steps else []
        replicas = ["--replicas", str(self.replicas)] if self.replicas > 1 else []
        arguments = ["--", *shlex.split(self.arguments)] if self.arguments else []
        return [*steps, *replicas, self.script, *arguments]


def programs(table: Path = TABLE) -> list[Program]:
    """The programs of a table, in its order."""
    given = tomllib.loads(table.read_text())
    return [Program(commit=given["repositories"][one["repository"]], **one) for one in given["program"]]


RESULTS = "<!-- written by scripts/programs --update -->"
COMMANDS = "## What was run"
HEAD = (
    "program",
    "verdict",
    "steps",
    "loss",
    "parameter",
    "executions",
    "compiled",
    "what differs, or costs more",
)


def results(program: Program, report: Mapping[str, Any]) -> str:
    """A row of the results, of the report of ``verify`` for programs."""
    worst, cost = report["comparison"], report["performance"]
    differences = [_number(worst[name]) if worst else "" for name in ("worst_loss", "worst_parameter")]
    counts = ["", ""]
    if cost is not None:
        settled = cost["settled_at_step"]
        counts = [
            f"{cost['executions']} in {cost['iterations']}",
            "to the end" if settled is None else f"to step {settled}",
        ]
    said = [] if report["exit_code"] == 0 else [report["headline"]]
    floor = worst and worst.get("rounding_floor")
    said += [f"rounding alone moves the native run by {floor:.1e}"] if floor else []
    said += cost["problems"] if cost else []
    steps = str((report["runs"]["native"] or {"steps": 0})["steps"])
    return _row([program.name, report["outcome"], steps, *differences, *counts, "; ".join(said)])


def _number(found: float | str | None) -> str:
    return f"{found:.1e}" if isinstance(found, float) else str(found or "none")


def merged(table: str, rows: Mapping[str, str], names: Sequence[str]) -> str:
    """The results with ``rows``, by program, in the place of those of a page, in the order of ``names``. A
    program that neither has was not run."""
    kept = {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines() if line[:2] == "| "}
    found = {**kept, **rows}
    aligned = _row(["---", "---", *["---:"] * 3, "---", "---", "---"])
    missing = {name: _row([name, "not run", *[""] * 6]) for name in names}
    return "\n".join([_row(HEAD), aligned, *({**missing, **found}[name] for name in names)])


def commands(known: Sequence[Program]) -> str:
    """What is run: a row a program."""
    rows = [_row(["program", "source", "folder", "data", "command"]), _row(["---"] * 5)]
    for one in known:
        source = f"[{one.repository} {one.commit[:8]}](https://github.com/{one.repository}/tree/{one.commit})"
        data = ", ".join(f"{maker} in `{place}`" for place, maker in one.data.items())
        variables = [f"{name}={value}" for name, value in one.environment.items()]
        command = " ".join([*variables, shlex.join(["xla-migrate", "verify", *one.options])])
        command = command.replace("{root}", "$ROOT")
        rows.append(_row([one.name, source, f"`{one.folder}`", data, f"`{command}`"]))
    return "\n".join(rows)


def makers() -> str:
    """What the data is: a line a maker."""
    return "\n".join(f"- *{name}*: {(make.__doc__ or '').strip()}" for name, make in MAKERS.items())


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"
