"""In how many real programs all resolves that a migration must know, and what leaves the others open.

A program is what ``xla-migrate map`` calls one; docs/map.md tells when each question resolves.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from ecosystem_counts import ROOT, compared_texts, labelled

from xla_migrate.commands import installed_commands
from xla_transforms.engine import map_program
from xla_transforms.mapping import QUESTIONS, ProgramMap

FOLDER = ROOT / "tests" / "ecosystem" / "programs"
_SHOWN = 240  # letters of a reason: the page names the place, where the whole can be asked of the tool

Open = dict[str, list[str]]  # by question, what is unknown: file, line and reason


@dataclass
class Share:
    """The programs of one source, each with what is open in it; nothing where all resolves."""

    label: str
    programs: dict[str, Open] = field(default_factory=dict)

    @property
    def resolved(self) -> int:
        return sum(not left for left in self.programs.values())


def share_of(label: str, folder: Path) -> Share:
    """Map all files of a folder as one project."""
    paths = sorted(p for p in folder.rglob("*.py") if p.is_file())
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}
    project = map_program(files, commands=installed_commands([str(folder)]))
    return Share(label, {_name(program): _open(program) for program in project.programs})


def _name(program: ProgramMap) -> str:
    return f"{program.name} ({program.started or 'a library'})"


def _open(program: ProgramMap) -> Open:
    answers = {question: program.answers[question] for question in QUESTIONS}
    return {q: [f"{u.place}: {u.reason}" for u in a.unknown] for q, a in answers.items() if not a.resolved}


def written(share: Share) -> None:
    """Record what a source's programs leave open."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{share.label}.json").write_text(_text(share))


def compared(share: Share) -> list[str]:
    """How the programs of a source differ from those recorded, as the lines of a diff."""
    return compared_texts(share.label, FOLDER / f"{share.label}.json", _text(share))


def recorded() -> list[Share]:
    """What is recorded, by source."""
    paths = sorted(FOLDER.glob("*.json"), key=lambda path: path.stem.lower())
    return [Share(path.stem, json.loads(path.read_text())) for path in paths]


def told(share: Share) -> str:
    """A source and its open programs, for the terminal."""
    lines = [f"{share.label}: {share.resolved} of {len(share.programs)} programs resolve"]
    for name, left in share.programs.items():
        lines += [f"  {name}"] if left else []
        lines += [f"    {question}: {reason}" for question, reasons in left.items() for reason in reasons]
    return "\n".join(lines)


def page(shares: list[Share]) -> str:
    """The share of each source and of all, and a row for each question that is open, as markdown."""
    total = Share("all", {f"{s.label}/{name}": left for s in shares for name, left in s.programs.items()})
    share = f"{total.resolved / max(len(total.programs), 1):.0%}"
    heads = ["source", "programs", "resolved", *(f"{question} open" for question in QUESTIONS)]
    rows = [heads, ["---", *["---:"] * (len(heads) - 1)], *map(_row, [*shares, total])]
    head = f"All questions resolve in {total.resolved} of {len(total.programs)} programs: {share}."
    return "\n\n".join([head, _markdown(rows), _reasons(shares)])


def _row(share: Share) -> list[str]:
    left = [sum(question in open_ for open_ in share.programs.values()) for question in QUESTIONS]
    return [labelled(share.label), *map(str, [len(share.programs), share.resolved, *left])]


def _reasons(shares: list[Share]) -> str:
    rows = [["program", "open", "why (the first reason)"], ["---", "---", "---"]]
    for share in shares:
        for name, left in share.programs.items():
            shown = f"`{share.label}: {name}`"
            rows += [[shown, q, _cut(reasons[0])] for q, reasons in left.items()]
    return _markdown(rows)


def _cut(text: str) -> str:
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return text.replace("|", "\\|").replace("<", "&lt;").replace("_", "\\_").replace("*", "\\*")


def _markdown(rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _text(share: Share) -> str:
    return json.dumps(share.programs, indent=1, ensure_ascii=False) + "\n"
