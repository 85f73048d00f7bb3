"""Where a loader goes from the place where it is made: every use, followed forwards."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from xla_transforms.roles import Roles
from xla_transforms.roles.calls import arriving_parameter, callers
from xla_transforms.roles.classes import is_self, related
from xla_transforms.roles.structure import is_wrapper
from xla_transforms.scopes import Binding

_MAX_DEPTH = 8


@dataclass
class Travel:
    """The loops that iterate over a value, and the uses that need the value as it was made."""

    loops: list[cst.For] = field(default_factory=list)
    others: list[cst.CSTNode] = field(default_factory=list)
    seen: set[cst.CSTNode] = field(default_factory=set)


def travel(roles: Roles, made: cst.BaseExpression) -> Travel:
    """Follow a value from the expression that makes it to all its uses in its module."""
    found = Travel()
    _follow(roles, made, found, 0)
    return found


def _follow(roles: Roles, node: cst.BaseExpression, found: Travel, depth: int) -> None:
    if node in found.seen:
        return
    found.seen.add(node)
    parent = roles.index(node).parent(node)
    if depth > _MAX_DEPTH:
        found.others.append(node)
    elif isinstance(parent, cst.Assign):
        for target in parent.targets:
            _follow_target(roles, target.target, found, depth)
    elif isinstance(parent, cst.AnnAssign) and parent.value is node:
        _follow_target(roles, parent.target, found, depth)
    elif isinstance(parent, cst.Return):
        _follow_return(roles, parent, None, found, depth)
    elif isinstance(parent, cst.Element):
        _follow_element(roles, parent, found, depth)
    elif isinstance(parent, cst.Arg):
        _follow_argument(roles, node, parent, found, depth)
    elif isinstance(parent, cst.For) and parent.iter is node:
        found.loops.append(parent)
    else:
        found.others.append(node)


def _follow_target(
    roles: Roles, target: cst.BaseExpression, found: Travel, depth: int
) -> None:
    index = roles.index(target)
    if isinstance(target, cst.Name):
        scope = index.scope_of(target).owner(target.value)
        bindings = scope.bindings[target.value] if scope else []
        for binding in bindings:
            if binding.node is target:
                _follow_reads(roles, binding, target.value, found, depth)
    elif isinstance(target, cst.Attribute) and is_self(roles, target.value):
        owner = index.class_of(target)
        for node in index.attributed(target.attr.value):
            if node is target or owner is None:
                continue
            if not is_self(roles, node.value) or related(roles, index.class_of(node), owner):
                _follow(roles, node, found, depth + 1)
    else:
        found.others.append(target)


def _follow_reads(
    roles: Roles, binding: Binding, name: str, found: Travel, depth: int
) -> None:
    index = roles.index(binding.node)
    scope = index.scope_of(binding.node).owner(name)
    if isinstance(binding.node, cst.Param):
        scope = index.scopes[binding.statement]
    targets = {b.node for b in scope.bindings[name]} if scope else set()
    for node in index.named_of(scope, name):
        if node not in targets and binding in roles.bindings(node):
            _follow(roles, node, found, depth + 1)


def _follow_element(roles: Roles, element: cst.Element, found: Travel, depth: int) -> None:
    """A loader in a tuple: returned with others, or assigned together with others."""
    index = roles.index(element)
    sequence = index.parent(element)
    outer = index.parent(sequence) if sequence is not None else None
    if not isinstance(sequence, cst.Tuple):
        found.others.append(element)
        return
    position = next(i for i, e in enumerate(sequence.elements) if e is element)
    if isinstance(outer, cst.Return):
        _follow_return(roles, outer, position, found, depth)
    elif isinstance(outer, cst.Assign):
        _follow_unpacked(roles, outer, position, found, depth)
    else:
        found.others.append(element)


def _follow_unpacked(
    roles: Roles, statement: cst.Assign, position: int, found: Travel, depth: int
) -> None:
    target = statement.targets[0].target
    unpacks = isinstance(target, (cst.Tuple, cst.List)) and position < len(target.elements)
    if len(statement.targets) != 1 or not unpacks:
        found.others.append(statement)
        return
    assert isinstance(target, (cst.Tuple, cst.List))
    _follow_target(roles, target.elements[position].value, found, depth)


def _follow_return(
    roles: Roles, statement: cst.Return, position: int | None, found: Travel, depth: int
) -> None:
    index = roles.index(statement)
    function = index.function_of(statement)
    sites = callers(roles, function) if function is not None else []
    if not sites or any(roles.index(call) is not index for call, _ in sites):
        found.others.append(statement)
        return
    for call, _ in sites:
        parent = index.parent(call)
        if position is None:
            _follow(roles, call, found, depth + 1)
        elif isinstance(parent, cst.Assign):
            _follow_unpacked(roles, parent, position, found, depth + 1)
        else:
            found.others.append(call)


def _follow_argument(
    roles: Roles, node: cst.BaseExpression, arg: cst.Arg, found: Travel, depth: int
) -> None:
    index = roles.index(node)
    call = index.parent(arg)
    if not isinstance(call, cst.Call):
        found.others.append(node)
        return
    if roles.path(call.func) == "builtins.len":
        return
    if is_wrapper(roles, call) and roles.path(call.func) != "builtins.zip":
        _follow(roles, call, found, depth + 1)
        return
    for item in roles.facts(call.func):
        function = item.node
        if isinstance(function, cst.FunctionDef) and roles.index(function) is index:
            param = arriving_parameter(roles, function, call, arg)
            if param is not None:
                bound = index.scopes[function].bindings[param.name.value]
                binding = next(b for b in bound if b.node is param)
                _follow_reads(roles, binding, param.name.value, found, depth + 1)
                continue
        found.others.append(node)

