"""Which functions of a program a piece of code may come to call, and from where a call may be reached.

Asked backwards where the aim is known: few calls lead to ``init_process_group``, while a training script may
come to call thousands of functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.classes import find_method, users
from xla_transforms.tree import LOOPS, is_main_guard

# What a call of a class, of a model, of an instance runs.
_RUN = {Kind.CLASS: "__init__", Kind.MODEL: "forward", Kind.INSTANCE: "__call__"}

_CONDITIONAL = (cst.If, cst.IfExp, cst.Try, cst.Lambda, *LOOPS)


def conditional(roles: Roles, node: cst.CSTNode) -> bool:
    """Whether a condition of the user's decides about a node within its function, or its module."""
    index = roles.index(node)
    for around in index.ancestors(node):
        if isinstance(around, cst.FunctionDef):
            return False
        if isinstance(around, _CONDITIONAL) and not _decided(roles, around):
            return True
    return False


def _decided(roles: Roles, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.If) and (is_main_guard(node) or roles.fold(node.test) is not None)


def in_any_case(roles: Roles, call: cst.Call) -> bool:
    """Whether a script comes to a call whatever its options say."""
    if roles.dead(call) or conditional(roles, call):
        return False
    function = running(roles, call)
    if function is None:
        return True
    with roles.guarded(("in any case", function)) as free:
        return free and any(in_any_case(roles, site) for site, _ in callers(roles, function))


def reachable(roles: Roles, node: cst.CSTNode) -> Set[cst.FunctionDef]:
    """The functions of the program that a piece of code may come to call, by itself or through others."""
    found: dict[cst.FunctionDef, None] = {}
    waiting = [node]
    while waiting:
        fresh = [function for function in _called_in(roles, waiting.pop()) if function not in found]
        found |= dict.fromkeys(fresh)
        waiting.extend(function.body for function in fresh)
    return found.keys()


def comes_to(roles: Roles, node: cst.CSTNode, sites: Collection[cst.CSTNode]) -> bool:
    """Whether a piece of code may come to one of some places, by itself or through what it calls."""
    index = roles.index(node)
    if not sites or any(index.within(site, node) for site in sites):
        return bool(sites)
    return not leading(roles, sites).isdisjoint(_called_in(roles, node))


def leading(roles: Roles, sites: Collection[cst.CSTNode]) -> frozenset[cst.FunctionDef]:
    """The functions of the program that may come to one of some calls, by themselves or through others."""
    key = ("leading", frozenset(map(id, sites)))
    return roles.remembered(key, lambda: _leading(roles, sites))


def _leading(roles: Roles, sites: Collection[cst.CSTNode]) -> frozenset[cst.FunctionDef]:
    found: set[cst.FunctionDef] = set()
    waiting = [function for site in sites for function in _around(roles, site)]
    while waiting:
        function = waiting.pop()
        if function not in found:
            found.add(function)
            waiting += [outer for site in _running(roles, function) for outer in _around(roles, site)]
    return frozenset(found)


def _running(roles: Roles, function: cst.FunctionDef) -> Iterator[cst.Call]:
    """The calls that run a function; those of ``forward`` are the calls of the model as well."""
    yield from (site for site, _ in callers(roles, function))
    owner = roles.index(function).class_of(function)
    if function.name.value != "forward" or owner is None:
        return
    models = users(roles, owner, function)
    for call in (c for found in roles.program.calls.values() for c in found):
        if any(f.node in models for f in roles.facts(call.func) if f.kind is Kind.MODEL):
            yield call


def _around(roles: Roles, node: cst.CSTNode) -> Iterator[cst.FunctionDef]:
    """The functions whose bodies hold a node: what stands in a head runs where it is defined."""
    inner = node
    for outer in roles.index(node).ancestors(node):
        if isinstance(outer, cst.FunctionDef) and inner is outer.body:
            yield outer
        inner = outer


def running(roles: Roles, node: cst.CSTNode) -> cst.FunctionDef | None:
    """The function that a node runs in."""
    return next(_around(roles, node), None)


def _called_in(roles: Roles, node: cst.CSTNode) -> list[cst.FunctionDef]:
    """The functions that a piece of code calls by itself, each once, in the order of the calls."""
    calls = roles.index(node).inside(node, cst.Call)
    found = (f for c in calls for f in called(roles, c))
    return roles.remembered(("called in", id(node)), lambda: list(dict.fromkeys(found)))


def called(roles: Roles, call: cst.Call) -> Iterator[cst.FunctionDef]:
    """The functions of the program that a call may run."""
    for item in roles.facts(call.func):
        if item.kind is Kind.FUNCTION and isinstance(item.node, cst.FunctionDef):
            yield item.node
        elif isinstance(item.node, cst.ClassDef) and item.kind in _RUN:
            run = find_method(roles, item.node, _RUN[item.kind])
            if run is not None:
                yield run
