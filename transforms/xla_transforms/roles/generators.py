"""Generators of the program that hand on what an iterable gives: ``for batch in log_every(loader, 10)``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles.facts import Kind
from xla_transforms.scopes import How, parameters
from xla_transforms.tree import value_of

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

_COUNTED = ("builtins.enumerate",)


def passed_on(roles: Roles, call: cst.Call) -> cst.BaseExpression | None:
    """The argument whose elements a call of a generator yields as they are; ``None`` for other calls."""
    return roles.remembered(("passed", id(call)), lambda: _of_call(roles, call))


def _of_call(roles: Roles, call: cst.Call) -> cst.BaseExpression | None:
    for item in roles.facts(call.func):
        if item.kind is Kind.FUNCTION and isinstance(item.node, cst.FunctionDef):
            param = _passed(roles, item.node)
            if param is not None:
                position = next(i for i, p in enumerate(parameters(item.node)) if p is param)
                return value_of(call, param.name.value, position - (item.detail == "bound"))
    return None


def only_iterates(roles: Roles, call: cst.Call) -> bool:
    """Whether the generator that a call runs asks its iterable for nothing but elements and their number."""
    for item in roles.facts(call.func):
        if item.kind is Kind.FUNCTION and isinstance(item.node, cst.FunctionDef):
            param = _passed(roles, item.node)
            if param is not None and not all(_harmless(roles, n) for n in _reads(roles, item.node, param)):
                return False
    return True


def _passed(roles: Roles, function: cst.FunctionDef) -> cst.Param | None:
    """The parameter whose elements a generator yields, and nothing else."""
    return roles.remembered(("yields", id(function)), lambda: _find(roles, function))


def _find(roles: Roles, function: cst.FunctionDef) -> cst.Param | None:
    yields = [node for node in roles.exits(function) if isinstance(node, cst.Yield)]
    sources = [_source(roles, node) for node in yields]
    names = {s.value for s in sources if isinstance(s, cst.Name)}
    if not yields or None in sources or len(names) != 1:
        return None
    return next((p for p in parameters(function) if p.name.value in names), None)


def _source(roles: Roles, node: cst.Yield) -> cst.BaseExpression | None:
    """The iterable whose element one ``yield`` gives."""
    if isinstance(node.value, cst.From):
        return node.value.item
    if not isinstance(node.value, cst.Name):
        return None
    bindings = roles.bindings(node.value)
    if len(bindings) != 1 or bindings[0].value is None:
        return None
    value, path = bindings[0].value, bindings[0].path
    if bindings[0].how is How.ASSIGN and not path:
        return _iterated(roles, _inside(roles, value, "builtins.next"))
    if bindings[0].how is not How.ITERATE or not _only_yielded(roles, node.value, bindings[0].statement):
        return None
    if isinstance(value, cst.Call) and roles.path(value.func) in _COUNTED and path == (1,):
        return value.args[0].value
    return value if not path else None


def _only_yielded(roles: Roles, element: cst.Name, loop: cst.CSTNode) -> bool:
    """Whether a loop does nothing with an element but yield it: what is read of a batch needs the host."""
    index = roles.index(element)
    uses = [n for n in index.named_of(index.scope_of(element), element.value) if index.within(n, loop)]
    bound = (cst.AssignTarget, cst.For, cst.Element)
    return all(n is element or isinstance(index.parent(n), bound) for n in uses)


def _inside(roles: Roles, node: cst.BaseExpression, function: str) -> cst.BaseExpression | None:
    """What a call of a builtin is given."""
    called = isinstance(node, cst.Call) and node.args and roles.path(node.func) == function
    return node.args[0].value if called and isinstance(node, cst.Call) else None


def _iterated(roles: Roles, node: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """The iterable of an iterator that was made by ``iter``."""
    if isinstance(node, cst.Name):
        bindings = roles.bindings(node)
        node = bindings[0].value if len(bindings) == 1 else None
    return _inside(roles, node, "builtins.iter") if node is not None else None


def _reads(roles: Roles, function: cst.FunctionDef, param: cst.Param) -> Iterator[cst.Name]:
    index = roles.index(function)
    yield from index.named_of(index.scopes[function], param.name.value)


def _harmless(roles: Roles, node: cst.Name) -> bool:
    """Whether one use of an iterable only goes through it, or counts its elements."""
    parent = roles.index(node).parent(node)
    if isinstance(parent, (cst.For, cst.CompFor, cst.From)):
        return True
    call = roles.index(node).parent(parent) if isinstance(parent, cst.Arg) else None
    counts = (*_COUNTED, "builtins.len", "builtins.iter")
    return isinstance(call, cst.Call) and roles.path(call.func) in counts
