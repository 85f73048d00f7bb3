"""The map of a project for programs. Its ``version`` grows when a field goes or changes its meaning."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from xla_migrate import __version__

if TYPE_CHECKING:
    from xla_transforms.mapping.parts import Answer, Node, ProgramMap, ProjectMap

VERSION = 1


def report(project: ProjectMap) -> str:
    """One JSON object: ``programs``, ``parts``, ``others``, ``failed`` and ``share``; see docs/map.md."""
    resolved, every = project.share
    content = {
        "version": VERSION,
        "tool": {"name": "xla-migrate", "version": __version__},
        "programs": [_program(program) for program in project.programs],
        "parts": [asdict(part) for part in project.parts.values()],
        "others": project.others,
        "failed": project.failed,
        "share": {"programs": every, "resolved": resolved},
    }
    return json.dumps(content, indent=2) + "\n"


def _program(program: ProgramMap) -> dict[str, Any]:
    return {
        "name": program.name,
        "started": program.started,
        "resolved": program.resolved,
        "answers": {question: _answer(answer) for question, answer in program.answers.items()},
        "tree": _node(program.tree),
    }


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "resolved": answer.resolved,
        "needed": answer.needed,
        "told": answer.told,
        "unknown": [asdict(unknown) for unknown in answer.unknown],
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        "kind": node.kind,
        "place": asdict(node.place),
        "text": node.text,
        "detail": node.detail,
        "part": node.part,
        "uses": node.uses,
        "again": node.again,
        "children": [_node(child) for child in node.children],
    }
