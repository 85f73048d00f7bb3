"""What an iteration draws from: loaders behind wrappers, and behind generators that hand on what they get."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles.calls import arriving_parameter
from xla_transforms.roles.facts import Kind, known
from xla_transforms.roles.structure import is_wrapper
from xla_transforms.scopes import How, parameters
from xla_transforms.tree import walk

if TYPE_CHECKING:
    from xla_transforms.roles import Roles


def loaders_behind(roles: Roles, node: cst.CSTNode) -> list[cst.BaseExpression]:
    """The expressions of loader kind that an iterable draws from, wrappers taken off."""
    if isinstance(node, cst.Call) and is_wrapper(roles, node):
        return [e for arg in node.args if not arg.keyword for e in loaders_behind(roles, arg.value)]
    if isinstance(node, cst.BaseExpression) and Kind.LOADER in roles.kinds(node):
        return [node]
    given = handed_on(roles, node) if isinstance(node, cst.Call) else None
    if given is not None:
        return loaders_behind(roles, given)
    iterators = [f.node for f in known(roles.facts(node)) if f.kind is Kind.ITERATOR and f.node]
    found: list[cst.BaseExpression] = []
    for origin in iterators:
        with roles.guarded(("behind", origin)) as free:
            if free:
                found.extend(loaders_behind(roles, origin))
    return found


def handed_on(roles: Roles, call: cst.Call) -> cst.BaseExpression | None:
    """The argument whose elements a call gives unchanged: ``loader`` of ``logger.log_every(loader, 10)``.

    So does a generator of the program that does nothing with the elements of a parameter but yield them.
    """
    functions = [f.node for f in roles.facts(call.func)]
    function = functions[0] if len(functions) == 1 else None
    if not isinstance(function, cst.FunctionDef):
        return None
    yielded = _yielded(roles, function)
    arriving = (arg for arg in call.args if arriving_parameter(roles, function, call, arg) is yielded)
    return next((arg.value for arg in arriving), None) if yielded is not None else None


def _yielded(roles: Roles, function: cst.FunctionDef) -> cst.Param | None:
    """The one parameter whose elements are all that a generator yields."""
    exits = roles.exits(function)
    found = {_source(roles, function, node) for node in exits if isinstance(node, cst.Yield)}
    gives = any(isinstance(node, cst.Return) and node.value is not None for node in exits)
    return found.pop() if len(found) == 1 and not gives else None


def _source(roles: Roles, function: cst.FunctionDef, node: cst.Yield) -> cst.Param | None:
    if isinstance(node.value, cst.From):
        return _parameter(roles, function, node.value.item)
    if not isinstance(node.value, cst.Name):
        return None
    bindings = roles.bindings(node.value)
    loop = bindings[0].statement if len(bindings) == 1 and bindings[0].how is How.ITERATE else None
    if not isinstance(loop, cst.For):
        return None
    uses = [n for n in walk(loop.body) if isinstance(n, cst.Name) and n.value == node.value.value]
    drawn, numbered = _unwrapped(roles, loop.iter)
    whole = bindings[0].path == ((1,) if numbered else ())
    return _parameter(roles, function, drawn) if whole and uses == [node.value] else None


def _unwrapped(roles: Roles, node: cst.BaseExpression) -> tuple[cst.BaseExpression, bool]:
    """What is iterated over without its wrappers, and whether one of them numbers the elements."""
    numbered = False
    while isinstance(node, cst.Call) and is_wrapper(roles, node):
        name = roles.path(node.func)
        if name == "builtins.zip" or (numbered and name == "builtins.enumerate"):
            break
        numbered = numbered or name == "builtins.enumerate"
        node = node.args[0].value
    return node, numbered


def _parameter(roles: Roles, function: cst.FunctionDef, node: cst.BaseExpression) -> cst.Param | None:
    if not isinstance(node, cst.Name):
        return None
    bindings = roles.bindings(node)
    own = parameters(function)
    return next((p for p in own if len(bindings) == 1 and bindings[0].node is p), None)
