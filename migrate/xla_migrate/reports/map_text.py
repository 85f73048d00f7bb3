"""The map of a project for people: what is known of each program, what it does, what stays unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from xla_migrate.reports.terminal import Line, shown

if TYPE_CHECKING:
    from xla_transforms.mapping.parts import Node, Part, ProgramMap, ProjectMap

_STYLES = {"loop": "bold", "backward": "green", "step": "green", "save": "cyan", "load": "cyan"}


def lines(project: ProjectMap) -> Iterator[Line]:
    """First how each program is started and what resolves, then each program's tree, then the unknown."""
    yield _summary(project)
    for number, program in enumerate(project.programs, 1):
        yield []
        yield from _program(project, program, number)
    if project.failed:
        yield []
    for path, reason in project.failed.items():
        yield [(f"{shown(path)}: ", "bold"), (shown(reason), "red")]


def _summary(project: ProjectMap) -> Line:
    resolved, every = project.share
    if not every:
        return [("no program that trains was found", "bold")]
    what = "program trains" if every == 1 else "programs train"
    return [(f"{every} {what}; in {resolved} of them entry, loader, step, save and device resolve", "bold")]


def _program(project: ProjectMap, program: ProgramMap, number: int) -> Iterator[Line]:
    yield [(f"{number}. {shown(program.name)}", "bold"), (f"  {shown(program.started)}", "dim")]
    for question, answer in program.answers.items():
        state, style = ("", "green") if answer.resolved else ("unknown", "bold yellow")
        yield [(f"   {question:<8}", ""), (state or shown(answer.told), "" if answer.resolved else style)]
        for unknown in answer.unknown:
            yield [(f"     {shown(str(unknown.place))} ", "bold"), (f"{shown(unknown.text)}: ", "")]
            yield [(f"       {shown(unknown.reason)}", "dim")]
    yield from _tree(project, program.tree, 0)


def _tree(project: ProjectMap, node: Node, depth: int) -> Iterator[Line]:
    part = project.parts[node.part] if node.part is not None else None
    label = part.role if part is not None else node.kind
    yield [
        ("   " + "  " * depth, ""),
        (f"{label} ", _STYLES.get(label, "")),
        (shown(_said(node, part)), _STYLES.get(label, "")),
        (f"  {shown(str(node.place))}", "dim"),
        (_connected(project, node.uses if part is None else part.uses), "dim"),
        ("  (see above)" if node.again else "", "dim"),
    ]
    for child in node.children:
        yield from _tree(project, child, depth + 1)


def _said(node: Node, part: Part | None) -> str:
    if part is not None and part.name:
        return f"{part.name} = {node.text}"
    return f"{node.text}: {node.detail}" if node.kind == "loop" and node.detail else node.text


def _connected(project: ProjectMap, uses: Sequence[int]) -> str:
    """What something belongs to: the loader of a loop, the optimizer of a step, the model of an optimizer."""
    used = [project.parts[number] for number in uses]
    return f"  <- {', '.join(f'{p.role} {p.place}' for p in used)}" if used else ""
