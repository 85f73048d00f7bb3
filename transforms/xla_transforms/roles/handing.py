"""Functions that are not called by their name: by an instance, a variable, a decorator, a process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles.facts import NOTHING, UNKNOWN, Fact, Facts, Kind
from xla_transforms.roles.spawns import spawns
from xla_transforms.scopes import How
from xla_transforms.tree import argument, value_of

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

_PARTIAL = "functools.partial"
_HELD = {Kind.INSTANCE, Kind.CLASS, Kind.FUNCTION}
_DEFINING = {cst.FunctionDef, cst.ClassDef, cst.ImportAlias}


def instance_calls(roles: Roles, owner: cst.ClassDef) -> list[cst.Call]:
    """The calls ``thing(...)`` of instances of a class."""
    return _calls_of(roles, Kind.INSTANCE, owner)


def class_calls(roles: Roles, owner: cst.ClassDef) -> list[cst.Call]:
    """The calls of variables, entries and what calls give that make instances of a class."""
    return _calls_of(roles, Kind.CLASS, owner)


def _calls_of(roles: Roles, kind: Kind, owner: cst.ClassDef) -> list[cst.Call]:
    calls = roles.through_variables()
    return [call for call, facts in calls if any(f.node is owner and f.kind is kind for f in facts)]


def indirect_calls(roles: Roles, function: cst.FunctionDef) -> list[tuple[cst.Call, int]]:
    """The calls of a function by variables that hold it, each with how many parameters ``self`` takes.

    Only for one that is handed on, a callback, say, or that a decorator puts somewhere.
    """
    if function.name.value not in _handed_on(roles) and not function.decorators:
        return []
    held = ((call, f) for call, facts in roles.through_variables() for f in facts)
    return [(call, 1 if f.detail == "bound" else 0) for call, f in held if f.node is function]


def find_calls(roles: Roles) -> Iterator[tuple[cst.Call, Facts]]:
    """The calls of what variables and attributes hold: instances, classes and functions of the program."""
    if not any(_may_be_held(roles, definition) for definition in _definitions(roles)):
        return
    for calls in roles.program.calls.values():
        for call in filter(lambda c: _may_hold(roles, c.func), calls):
            facts = roles.facts(call.func)
            found = frozenset(f for f in facts if f.kind in _HELD)
            if found:
                yield call, found


def _may_be_held(roles: Roles, definition: cst.FunctionDef | cst.ClassDef) -> bool:
    handed = definition.name.value in _handed_on(roles) or bool(definition.decorators)
    return handed or definition.name.value == "__call__"


def _definitions(roles: Roles) -> Iterator[cst.FunctionDef | cst.ClassDef]:
    for index in roles.program.modules.values():
        for node in index.all(cst.FunctionDef, cst.ClassDef):
            if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
                yield node


def _handed_on(roles: Roles) -> set[str]:
    """The names that stand anywhere but in a call of them."""
    return roles.remembered("handed on", lambda: set(_names_handed(roles)))


def _names_handed(roles: Roles) -> Iterator[str]:
    for index in roles.program.modules.values():
        for node in (*index.names(), *index.all(cst.Attribute)):
            parent = index.parent(node)
            if type(parent) not in _DEFINING and not (type(parent) is cst.Call and parent.func is node):
                yield node.attr.value if type(node) is cst.Attribute else getattr(node, "value", "")


def _may_hold(roles: Roles, function: cst.BaseExpression) -> bool:
    """Whether a name or an attribute is given a value somewhere, not only defined or imported; an entry of a
    container and what a call gives are values in any case."""
    if isinstance(function, cst.Attribute):
        return bool(roles.program.attributes.get(function.attr.value))
    if isinstance(function, (cst.Subscript, cst.Call)):
        return True
    if not isinstance(function, cst.Name):
        return False
    owner = roles.index(function).scope_of(function).owner(function.value)
    bindings = owner.bindings[function.value] if owner is not None else ()
    return any(b.how not in (How.IMPORT, How.DEFINE) for b in bindings)


def handed(roles: Roles, function: cst.FunctionDef, position: int, name: str) -> Facts:
    """What arrives in a parameter from those that hand the function on: processes, partials, decorators."""
    return _started(roles, function, position, name) | _decorated(roles, function, position)


def _started(roles: Roles, function: cst.FunctionDef, position: int, name: str) -> Facts:
    """``Process(target=function, args=(...))`` and ``partial(function, ...)``.

    What arrives in processes that train together is the ranks' to say.
    """
    calls = roles.program.calls
    found: set[Fact] = set()
    together = {spawn.call for spawn in spawns(roles)}
    for call in (c for name in ("Process", "Thread") for c in calls.get(name, ()) if c not in together):
        target = value_of(call, "target")
        if target is not None and _is(roles, target, function):
            found |= _element(roles, value_of(call, "args"), position)
    for call in _partials_of(roles, function):
        if roles.path(call.func) == _PARTIAL and _is(roles, call.args[0].value, function):
            given = argument(call, name, position + 1)
            found |= roles.facts(given.value) if given is not None else NOTHING
    return frozenset(found)


def _partials_of(roles: Roles, function: cst.FunctionDef) -> list[cst.Call]:
    """The calls of ``partial`` that may be given a function: a variable holds only what is handed on."""
    every = roles.remembered("partials", lambda: _partials(roles))
    named = every.get(function.name.value, [])
    return named + every.get("", []) if _may_be_held(roles, function) else named


def _partials(roles: Roles) -> dict[str, list[cst.Call]]:
    """The calls of ``partial`` by the names that the functions given to them may have where they are defined,
    by an empty one where that is open."""
    found: dict[str, list[cst.Call]] = defaultdict(list)
    for call in roles.program.calls.get("partial", ()):
        for name in _defined_as(roles, call.args[0].value) if call.args else ():
            found[name].append(call)
    return found


def _defined_as(roles: Roles, node: cst.BaseExpression) -> set[str]:
    if _may_hold(roles, node) or not isinstance(node, (cst.Name, cst.Attribute)):
        return {""}
    if isinstance(node, cst.Attribute):
        return {node.attr.value}
    owner = roles.index(node).scope_of(node).owner(node.value)
    bindings = owner.bindings[node.value] if owner is not None else ()
    return {node.value, *(b.name.rpartition(".")[2] for b in bindings if b.how is How.IMPORT)}


def _element(roles: Roles, arguments: cst.BaseExpression | None, position: int) -> Facts:
    if not isinstance(arguments, (cst.Tuple, cst.List)):
        return UNKNOWN if arguments is not None else NOTHING
    elements = arguments.elements
    if any(isinstance(e, cst.StarredElement) for e in elements) or position >= len(elements):
        return UNKNOWN
    return roles.facts(elements[position].value)


def _is(roles: Roles, node: cst.BaseExpression, function: cst.CSTNode) -> bool:
    return any(f.node is function for f in roles.facts(node) if f.kind is Kind.FUNCTION)


def _decorated(roles: Roles, function: cst.FunctionDef, position: int) -> Facts:
    """What a function decorates: itself, or as the inner function that a decorator with arguments gives."""
    taken = 1 if roles.index(function).class_of(function) is not None else 0
    if position not in (0, taken):
        return NOTHING
    named = decorations(roles)
    found: set[Fact] = set()
    for factory, wanted in ((True, roles.index(function).function_of(function)), (False, function)):
        if wanted is None:
            continue
        for decorator, definition in named.get((factory, wanted.name.value), ()):
            if _is(roles, decorator, wanted):
                kind = Kind.CLASS if isinstance(definition, cst.ClassDef) else Kind.FUNCTION
                found.add(Fact(kind, "", definition))
    return frozenset(found)


Decoration = tuple[cst.BaseExpression, "cst.FunctionDef | cst.ClassDef"]


def decorations(roles: Roles) -> dict[tuple[bool, str], list[Decoration]]:
    """The decorators of the program with what they decorate, by whether they are called for it and by their
    last name."""
    return roles.remembered("decorations", lambda: _decorations(roles))


def _decorations(roles: Roles) -> dict[tuple[bool, str], list[Decoration]]:
    found: dict[tuple[bool, str], list[Decoration]] = {}
    for index in roles.program.modules.values():
        for node in index.all(cst.FunctionDef, cst.ClassDef):
            assert isinstance(node, (cst.FunctionDef, cst.ClassDef))
            for given in node.decorators:
                factory = isinstance(given.decorator, cst.Call)
                named = given.decorator.func if isinstance(given.decorator, cst.Call) else given.decorator
                last = named.attr if isinstance(named, cst.Attribute) else named
                found.setdefault((factory, getattr(last, "value", "")), []).append((named, node))
    return found
