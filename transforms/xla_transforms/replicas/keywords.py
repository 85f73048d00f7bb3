"""Keyword arguments that a call gets from a dictionary: ``DataLoader(data, **train_kwargs)``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.roles import Roles
from xla_transforms.tree import LOOPS, method, receiver, string_value

_DEEP = 4


def spread(call: cst.Call) -> cst.Name | None:
    """The variable whose entries a call gets; ``None`` where there is none, or more than this one."""
    starred = [arg for arg in call.args if arg.star]
    single = len(starred) == 1 and starred[0].star == "**"
    value = starred[0].value if single else None
    return value if isinstance(value, cst.Name) else None


def keys_given(roles: Roles, call: cst.Call) -> set[str] | None:
    """The keys that the variable's dictionary may have; ``None`` where they are not all seen."""
    name = spread(call)
    return _keys(roles, name, 0) if name is not None else None


def only_here(roles: Roles, call: cst.Call) -> bool:
    """Whether this call alone, once, reads the dictionary: then an entry may be taken out before."""
    name, index = spread(call), roles.index(call)
    if name is None or any(isinstance(a, LOOPS) for a in index.statements(call)):
        return False
    own = index.scope_of(name)
    readers = [n for n in _mentions(roles, name) if not _writes(roles, n)]
    return own.owner(name.value) is own and readers == [name]


def _keys(roles: Roles, name: cst.Name, depth: int) -> set[str] | None:
    found: set[str] = set()
    parts: list[cst.CSTNode | None] = [b.value for b in roles.bindings(name)]
    parts += [value for n in _mentions(roles, name) for value in _added(roles, n)]
    for part in parts:
        keys = _of(roles, part, depth)
        if keys is None:
            return None
        found |= keys
    return found if parts else None


def _of(roles: Roles, value: cst.CSTNode | None, depth: int) -> set[str] | None:
    if isinstance(value, cst.Name) and depth < _DEEP:
        return _keys(roles, value, depth + 1)
    if isinstance(value, cst.IfExp):
        ways = [_of(roles, way, depth) for way in (value.body, value.orelse)]
        return None if None in ways else {key for way in ways for key in way or ()}
    if isinstance(value, cst.SimpleString):
        return {string_value(value) or ""}
    keys: list[str | None] = [None]
    if isinstance(value, cst.Dict):
        keys = [string_value(e.key) if isinstance(e, cst.DictElement) else None for e in value.elements]
    elif isinstance(value, cst.Call) and roles.path(value.func) == "builtins.dict":
        keys = [a.keyword.value if a.keyword is not None else None for a in value.args]
    return None if None in keys else {key for key in keys if key is not None}


def _mentions(roles: Roles, name: cst.Name) -> list[cst.Name]:
    index = roles.index(name)
    owner = index.scope_of(name).owner(name.value)
    bound = {b.node for b in owner.bindings[name.value]} if owner is not None else set()
    return [n for n in index.named_of(owner, name.value) if n not in bound]


def _added(roles: Roles, name: cst.Name) -> Iterator[cst.CSTNode]:
    """What a use of a dictionary adds to it: the argument of ``update``, the key of an assignment."""
    parent = roles.index(name).parent(name)
    call = roles.index(name).parent(parent) if isinstance(parent, cst.Attribute) else None
    if isinstance(call, cst.Call) and method(call) == "update" and receiver(call) is name:
        yield from (arg.value if arg.keyword is None else _literal(arg) for arg in call.args)
    elif isinstance(parent, cst.Subscript) and _writes(roles, name):
        index = parent.slice[0].slice
        yield index.value if isinstance(index, cst.Index) else parent


def _literal(arg: cst.Arg) -> cst.SimpleString:
    assert arg.keyword is not None
    return cst.SimpleString(f'"{arg.keyword.value}"')


def _writes(roles: Roles, name: cst.Name) -> bool:
    """``kwargs.update(...)`` and ``kwargs["key"] = ...``."""
    index = roles.index(name)
    parent = index.parent(name)
    outer = index.parent(parent) if parent is not None else None
    if isinstance(parent, cst.Attribute) and isinstance(outer, cst.Call):
        return method(outer) == "update" and receiver(outer) is name
    return isinstance(parent, cst.Subscript) and isinstance(outer, cst.AssignTarget)
