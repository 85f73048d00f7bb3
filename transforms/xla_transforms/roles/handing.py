"""Functions that are not called by their name: by an instance, a variable, a decorator, a process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles.facts import NOTHING, UNKNOWN, Fact, Facts, Kind, of_kind
from xla_transforms.roles.spawns import spawns
from xla_transforms.scopes import How
from xla_transforms.tree import argument, value_of

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

_PARTIAL = "functools.partial"
_DEFINING = {cst.FunctionDef, cst.ClassDef, cst.ImportAlias}


def instance_calls(roles: Roles, owner: cst.ClassDef) -> list[cst.Call]:
    """The calls ``thing(...)`` of instances of a class."""
    return [call for call, facts in roles.through_variables() if any(f.node is owner for f in facts)]


def indirect_calls(roles: Roles, function: cst.FunctionDef) -> list[tuple[cst.Call, int]]:
    """The calls of a function by variables that hold it, each with how many parameters ``self`` takes.

    Only for one that is handed on: a callback, say.
    """
    if function.name.value not in _handed_on(roles):
        return []
    held = ((call, f) for call, facts in roles.through_variables() for f in facts)
    return [(call, 1 if f.detail == "bound" else 0) for call, f in held if f.node is function]


def find_calls(roles: Roles) -> Iterator[tuple[cst.Call, Facts]]:
    """The calls of what variables and attributes hold: instances and functions of the program."""
    called = any(f.name.value == "__call__" for f in _functions(roles))
    if not called and not _handed_on(roles).intersection(f.name.value for f in _functions(roles)):
        return
    for calls in roles.program.calls.values():
        for call in filter(lambda c: _may_hold(roles, c.func), calls):
            facts = roles.facts(call.func)
            found = of_kind(facts, Kind.INSTANCE) | of_kind(facts, Kind.FUNCTION)
            if found:
                yield call, found


def _functions(roles: Roles) -> Iterator[cst.FunctionDef]:
    for index in roles.program.modules.values():
        yield from (f for f in index.all(cst.FunctionDef) if isinstance(f, cst.FunctionDef))


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
    """Whether a name or an attribute is given a value somewhere, not only defined or imported."""
    if isinstance(function, cst.Attribute):
        return bool(roles.program.attributes.get(function.attr.value))
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
    for call in calls.get("partial", ()):
        if roles.path(call.func) == _PARTIAL and call.args and _is(roles, call.args[0].value, function):
            given = argument(call, name, position + 1)
            found |= roles.facts(given.value) if given is not None else NOTHING
    return frozenset(found)


def _element(roles: Roles, arguments: cst.BaseExpression | None, position: int) -> Facts:
    if not isinstance(arguments, (cst.Tuple, cst.List)):
        return UNKNOWN if arguments is not None else NOTHING
    elements = arguments.elements
    if any(isinstance(e, cst.StarredElement) for e in elements) or position >= len(elements):
        return UNKNOWN
    return roles.facts(elements[position].value)


def _is(roles: Roles, node: cst.BaseExpression, function: cst.CSTNode) -> bool:
    return any(f.node is function for f in of_kind(roles.facts(node), Kind.FUNCTION))


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
