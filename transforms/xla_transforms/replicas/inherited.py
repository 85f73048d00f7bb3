"""What forked processes have from the one that starts them, and the processes of a launch have not.

Those import the script anew: what its main guard, or a function, bound or seeded before is not there.
Source: pytorch/xla v2.9.0, ``torch_xla.py``, ``launch``: ``start_method="spawn"``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from xla_transforms.replicas.reach import reachable
from xla_transforms.replicas.scripts import main_guard
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.spawns import Spawn
from xla_transforms.scopes import Scope
from xla_transforms.tree import walk

_SEEDS = {
    "manual_seed": "torch.manual_seed",
    "manual_seed_all": "torch.cuda.manual_seed_all",
    "seed": "random.seed numpy.random.seed",
}


def inherited(
    roles: Roles, spawn: Spawn, function: cst.FunctionDef, launching: Collection[cst.FunctionDef]
) -> str:
    """Why forked processes cannot become those of a launch; empty where they can.

    ``launching`` are the functions that run in the starting process.
    """
    index, guard = roles.index(spawn.call), main_guard(roles.index(spawn.call))
    guarded = guard is not None and index.within(spawn.call, guard)
    if index.function_of(spawn.call) is None and not guarded:
        return "no main guard keeps the processes, which import the script, from starting others"
    given = [f.node for value in spawn.values or () for f in roles.facts(value) if f.kind is Kind.FUNCTION]
    if not all(_of_module(roles, node) for node in given):
        return "the processes are given a function that stands in another one: it cannot be pickled"
    before = [f.body for f in launching] + ([guard.body] if guard is not None else [])
    seed = next(_seeds(roles, before), None)
    if seed is not None:
        return f"the processes begin as copies of the one that is seeded in line {_line(roles, seed)}"
    name = next(_bound_before(roles, function, before), None)
    if name is None:
        return ""
    line = _line(roles, name)
    return f"{name.value} (line {line}) is bound by the starting process alone, which the others copy"


def _of_module(roles: Roles, function: cst.CSTNode | None) -> bool:
    return function is not None and isinstance(roles.index(function).parent(function), cst.Module)


def _line(roles: Roles, node: cst.CSTNode) -> int:
    return roles.index(node).source.span(node).line


def _seeds(roles: Roles, before: list[cst.BaseSuite]) -> Iterator[cst.Call]:
    for name, paths in _SEEDS.items():
        for call in roles.program.calls.get(name, ()):
            inside = not set(before).isdisjoint(roles.index(call).ancestors(call))
            if inside and roles.path(call.func) in paths.split():
                yield call


def _bound_before(
    roles: Roles, function: cst.FunctionDef, before: list[cst.BaseSuite]
) -> Iterator[cst.Name]:
    """The names of modules that the processes read, and that code before the start binds."""
    for each in (function, *reachable(roles, function.body)):
        index = roles.index(each)
        module = index.scopes[index.source.module]
        for node in walk(each.body):
            if isinstance(node, cst.Name) and _bound_in(roles, node, module, before):
                yield node


def _bound_in(roles: Roles, name: cst.Name, module: Scope, before: list[cst.BaseSuite]) -> bool:
    index = roles.index(name)
    if name.value not in module.bindings or index.scope_of(name).owner(name.value) is not module:
        return False
    places = (index.ancestors(b.statement) for b in module.bindings[name.value])
    return any(not set(before).isdisjoint(around) for around in places)
