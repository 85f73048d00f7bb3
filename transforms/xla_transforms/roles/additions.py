"""What is put into a container after it was made: ``steps.append(x)``, ``registry[name] = cls``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles.facts import Facts, Kind
from xla_transforms.tree import string_key, string_value

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

_ONE = {"append": 0, "add": 0, "appendleft": 0, "insert": 1, "setdefault": 1}
_ALL = frozenset({"extend", "update"})
_MOST = 64  # a registry of more holds everything, which says nothing


@dataclass(frozen=True)
class Added:
    """A value that a container gets: under a constant ``key``, or ``whole``: all that the value holds."""

    value: cst.BaseExpression
    key: str | None = None
    whole: bool = False


def held(roles: Roles, made: cst.CSTNode, key: str | None = None) -> Facts:
    """What is added to the container that an expression makes, under one key or (``None``) under any."""
    found = [a for a in added(roles, made) if key is None or a.key is None or a.key == key]
    if not found or len(found) > _MOST:
        return frozenset()
    with roles.guarded(("held", id(made), key)) as free:  # a function may extend its list by its own result
        if not free:
            return frozenset()
        facts = [roles.element(a.value, ()) if a.whole else roles.facts(a.value) for a in found]
    return frozenset().union(*facts)


def added(roles: Roles, made: cst.CSTNode) -> list[Added]:
    """All that is seen to be put into the container that an expression makes."""
    return roles.remembered(("added", id(made)), lambda: list(_added(roles, made)))


def _added(roles: Roles, made: cst.CSTNode) -> Iterator[Added]:
    for place in _places(roles, made):
        index = roles.index(place)
        parent = index.parent(place)
        if isinstance(parent, cst.Attribute) and parent.value is place:
            call = index.parent(parent)
            if isinstance(call, cst.Call) and call.func is parent:
                yield from _by_method(call, parent.attr.value)
                yield from _nested(roles, call, None)  # steps.setdefault(name, []).append(x)
        elif isinstance(parent, cst.Subscript) and parent.value is place:
            yield from _by_key(roles, parent)


def _by_key(roles: Roles, entry: cst.Subscript) -> Iterator[Added]:
    """``steps[name] = x``, and ``steps[name].append(x)`` where the entries are lists."""
    parent = roles.program.parent(entry)
    target = roles.program.parent(parent) if parent is not None else None
    if isinstance(target, cst.Assign) and any(t.target is entry for t in target.targets):
        yield Added(target.value, string_key(entry))
    yield from _nested(roles, entry, string_key(entry))


def _nested(roles: Roles, entry: cst.BaseExpression, key: str | None) -> Iterator[Added]:
    """What is put into a list that is itself held by the container."""
    parent = roles.program.parent(entry)
    call = roles.program.parent(parent) if isinstance(parent, cst.Attribute) else None
    if isinstance(parent, cst.Attribute) and isinstance(call, cst.Call) and call.func is parent:
        inner = [a.value for a in _by_method(call, parent.attr.value) if not a.whole]
        if inner:
            yield Added(cst.List([cst.Element(value) for value in inner]), key)


def _by_method(call: cst.Call, name: str) -> Iterator[Added]:
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    if name in _ONE and len(plain) > _ONE[name]:
        key = string_value(plain[0]) if name == "setdefault" else None
        yield Added(plain[_ONE[name]], key)
    elif name in _ALL:
        yield from (Added(value, whole=True) for value in plain)
        yield from (Added(arg.value, arg.keyword.value) for arg in call.args if arg.keyword is not None)


def _places(roles: Roles, made: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Where the variable or attribute that an expression is assigned to is written."""
    from xla_transforms.roles.classes import is_self, related

    for target in _targets(roles, made):
        index = roles.index(target)
        if isinstance(target, cst.Name):
            scope = index.scope_of(target).owner(target.value)
            yield from (n for n in index.named_of(scope, target.value) if n is not target)
        elif isinstance(target, cst.Attribute) and is_self(roles, target.value):
            owner = index.class_of(target)
            every = (n for i in roles.program.modules.values() for n in i.attributed(target.attr.value))
            for node in every:
                mine = owner is not None and related(roles, roles.index(node).class_of(node), owner)
                if node is not target and mine and is_self(roles, node.value):
                    yield node
        elif isinstance(target, cst.Attribute) and Kind.ARGUMENTS in roles.kinds(target.value):
            every = (n for i in roles.program.modules.values() for n in i.attributed(target.attr.value))
            yield from (n for n in every if n is not target and Kind.ARGUMENTS in roles.kinds(n.value))


def _targets(roles: Roles, made: cst.CSTNode) -> list[cst.BaseExpression]:
    parent = roles.program.parent(made)
    if isinstance(parent, cst.Assign):
        return [t.target for t in parent.targets]
    return [parent.target] if isinstance(parent, cst.AnnAssign) else []
