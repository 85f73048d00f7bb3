"""What changes a model, or how fast it learns, besides the optimizer's step: replicas must do it alike."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.scopes import ModuleIndex
from xla_transforms.tree import method, receiver, walk

_KINDS = {
    "load_state_dict": frozenset({Kind.MODEL, Kind.OPTIMIZER}),
    "step": frozenset({Kind.SCHEDULER}),
}


def alterations(roles: Roles) -> list[cst.CSTNode]:
    """State that is loaded, schedules that step, learning rates that are written; of a whole program."""
    found: list[cst.CSTNode] = []
    for name, kinds in _KINDS.items():
        calls = (c for c in roles.program.calls.get(name, ()) if method(c) == name)
        found += [c for c in calls if roles.kinds(receiver(c)) & kinds]
    for index in roles.program.modules.values():
        for groups in index.attributed("param_groups"):
            found += _written(index, groups)
    return found


def _written(index: ModuleIndex, groups: cst.Attribute) -> Iterator[cst.CSTNode]:
    """Assignments to an entry of a group, written out or in a loop through the groups."""
    group = index.parent(groups)
    if isinstance(group, cst.Subscript):
        entry = index.parent(group)
        if isinstance(entry, cst.Subscript) and (statement := _assigned(index, entry)) is not None:
            yield statement
    loop = next((a for a in index.ancestors(groups) if isinstance(a, cst.BaseCompoundStatement)), None)
    if not isinstance(loop, cst.For) or not index.within(groups, loop.iter):
        return
    names = {n.value for n in walk(loop.target) if isinstance(n, cst.Name)}
    for entry in (n for n in walk(loop.body) if isinstance(n, cst.Subscript)):
        own = isinstance(entry.value, cst.Name) and entry.value.value in names
        if own and (statement := _assigned(index, entry)) is not None:
            yield statement


def _assigned(index: ModuleIndex, entry: cst.Subscript) -> cst.CSTNode | None:
    outer = index.parent(entry)
    if isinstance(outer, cst.AugAssign):
        return outer if outer.target is entry else None
    return outer if isinstance(outer, cst.AssignTarget) else None
