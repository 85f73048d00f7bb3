"""What a function's expression is called elsewhere: where the function is called, in what it calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles.calls import callers
from xla_transforms.roles.classes import is_self, related
from xla_transforms.scopes import parameters
from xla_transforms.tree import argument, receiver, same, string_value, value_of

if TYPE_CHECKING:
    from xla_transforms.roles import Roles


def given(
    roles: Roles, node: cst.BaseExpression, function: cst.FunctionDef, site: cst.Call, taken: int
) -> cst.BaseExpression | None:
    """What a call hands over for a parameter of the function; any other expression is given as it is."""
    names = [p.name.value for p in parameters(function)]
    if isinstance(node, cst.Name) and node.value in names:
        return value_of(site, node.value, names.index(node.value) - taken)
    return node


def of_receiver(roles: Roles, node: cst.BaseExpression, site: cst.Call) -> str:
    """``opt.base`` for ``self.base`` of the method that ``opt.second_step()`` runs; empty for nothing."""
    base = receiver(site)
    own = isinstance(node, cst.Attribute) and is_self(roles, node.value)
    if not own or not isinstance(base, (cst.Name, cst.Attribute)):
        return ""
    assert isinstance(node, cst.Attribute)
    return f"{roles.index(site).source.code(base)}.{node.attr.value}"


def in_callee(
    roles: Roles, node: cst.BaseExpression, function: cst.FunctionDef, call: cst.Call
) -> str:
    """What an expression is called inside a function that is called beside it; empty for nothing."""
    taken = next((t for site, t in callers(roles, function) if site is call), 0)
    for position, param in enumerate(parameters(function)[taken:]):
        arg = argument(call, param.name.value, position)
        if arg is not None and same(arg.value, node):
            return param.name.value
    return text_at(roles, node, function.body)


def text_at(roles: Roles, node: cst.BaseExpression, place: cst.CSTNode) -> str:
    """The text by which a name, an attribute of ``self`` or an entry of either is known at another place."""
    here, index = roles.index(node), roles.index(place)
    if isinstance(node, cst.Subscript):
        base, key = text_at(roles, node.value, place), node.slice[0].slice
        constant = len(node.slice) == 1 and isinstance(key, cst.Index) and string_value(key.value) is not None
        return f"{base}[{here.source.code(key)}]" if base and constant else ""
    if here is index and index.function_of(node) is _function(roles, place):
        return index.source.code(node) if isinstance(node, (cst.Name, cst.Attribute)) else ""
    if isinstance(node, cst.Name):
        scope = here.scope_of(node).owner(node.value)
        inner = index.scopes.get(_function(roles, place) or index.source.module)
        alike = scope is not None and inner is not None and inner.owner(node.value) is scope
        return node.value if here is index and alike else ""
    if isinstance(node, cst.Attribute) and is_self(roles, node.value):
        mine, other, method = here.class_of(node), index.class_of(place), _function(roles, place)
        first = parameters(method)[:1] if method is not None else []
        if other is not None and related(roles, mine, other) and first:
            return f"{first[0].name.value}.{node.attr.value}"
    return ""


def _function(roles: Roles, place: cst.CSTNode) -> cst.FunctionDef | None:
    return roles.index(place).function_of(place)
