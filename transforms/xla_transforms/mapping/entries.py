"""Where programs start: main guards, scripts that run from the top, functions of installed commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from xla_transforms.replicas.scripts import main_guard
from xla_transforms.replicas.starts import Starts
from xla_transforms.roles import Roles
from xla_transforms.scopes import How, ModuleIndex

_QUIET = (cst.FunctionDef, cst.ClassDef)


@dataclass(eq=False)
class Entry:
    """A program's start: the code that runs first, and how a person starts it."""

    index: ModuleIndex
    code: tuple[cst.CSTNode, ...]
    at: cst.CSTNode
    started: str


def entries(roles: Roles, starts: Starts, commands: Mapping[str, str]) -> list[Entry]:
    """All entries of a program. ``commands`` are functions (``package.module:main``) by command."""
    found = []
    for index in roles.program.modules.values():
        body = index.source.module.body
        guard = main_guard(index)
        top = tuple(s for s in body if not isinstance(s, _QUIET))
        if top:
            how = _started(roles, starts, index) + (" (top level)" if guard is None else "")
            found.append(Entry(index, top, guard or top[0], how))
    return found + [e for name, path in commands.items() for e in _command(roles, name, path)]


def _started(roles: Roles, starts: Starts, index: ModuleIndex) -> str:
    path = index.source.path
    if path.endswith("__main__.py"):
        return f"python -m {index.name.removesuffix('.__main__')}"
    launched = any(e.index is index for e in starts.entries) if roles.program.replicated else False
    return f"torchrun {path}" if launched else f"python {path}"


def _command(roles: Roles, name: str, path: str) -> list[Entry]:
    """The function that an installed command calls."""
    module, _, function = path.partition(":")
    tails = [i for n, i in roles.program.modules.items() if n == module or n.endswith(f".{module}")]
    for index in tails[:1] if len(tails) == 1 else ():
        bindings = index.scopes[index.source.module].bindings.get(function, [])
        defined = [b.node for b in bindings if b.how is How.DEFINE and isinstance(b.node, cst.FunctionDef)]
        return [Entry(index, (node,), node, f"{name} (installed command)") for node in defined[-1:]]
    return []
