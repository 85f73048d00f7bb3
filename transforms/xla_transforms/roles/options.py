"""What ``dict(...)`` and a function's ``**options`` hold, handed on from function to function.

Gathered once for a call, by name: a program of many models hands hundreds of names on through its calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles import structure
from xla_transforms.roles.additions import added, held
from xla_transforms.roles.facts import NOTHING, Fact, Facts, Kind, together
from xla_transforms.tree import string_value

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

_ADDED = "added"  # the detail of what is put into a dictionary after it was made


@dataclass(frozen=True)
class Options:
    """The values by their names, and what else holds some, each with the names that are not taken from it.

    In the order of the source, without repetition: a set of nodes would have another order in each run.
    """

    named: dict[str, tuple[cst.BaseExpression, ...]]
    others: tuple[tuple[Fact, frozenset[str]], ...]


_EMPTY = Options({}, ())


def value(roles: Roles, call: cst.Call, name: str) -> Facts:
    """What a call is given under a name, by itself or by what it hands on; with ``*`` under any."""
    return roles.asked(("value", id(call), name), lambda: _value(roles, call, name), NOTHING)


def _value(roles: Roles, call: cst.Call, name: str) -> Facts:
    options = of_call(roles, call)
    chosen = options.named.values() if name == "*" else [options.named.get(name, ())]
    parts = [roles.facts(each) for values in chosen for each in values]
    others = [item for item, hidden in options.others if name not in hidden]
    return together(parts + [_inside(roles, item, name) for item in others])


def _inside(roles: Roles, item: Fact, name: str) -> Facts:
    if item.detail == _ADDED and item.node is not None:
        return held(roles, item.node, None if name == "*" else name)
    return structure.at(roles, frozenset({item}), (name,))


def of_call(roles: Roles, call: cst.Call) -> Options:
    """All that a call is given by name."""
    return roles.asked(("options", id(call)), lambda: _of_call(roles, call), _EMPTY)


def _of_call(roles: Roles, call: cst.Call) -> Options:
    own = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    named: dict[str, dict[cst.BaseExpression, None]] = defaultdict(dict)
    others: dict[tuple[Fact, frozenset[str]], None] = {}
    if added(roles, call):
        others[Fact(Kind.MAPPING, _ADDED, call), frozenset()] = None
    taken = frozenset(own)
    for item in (f for arg in call.args if arg.star == "**" for f in roles.facts(arg.value)):
        if item.kind is Kind.MAPPING and isinstance(item.node, cst.Call):
            more = of_call(roles, item.node)
            others |= {(each, hidden | taken): None for each, hidden in more.others}
            for name in (name for name in more.named if name not in own):
                named[name] |= dict.fromkeys(more.named[name])
        else:
            others[item, taken] = None
    whole = {name: tuple(values) for name, values in named.items()}
    return Options(whole | {name: (each,) for name, each in own.items()}, tuple(others))


@dataclass(frozen=True)
class Told:
    """What a call is given by name, each with its value, and whether it may be given more, unknown here."""

    named: tuple[tuple[str, cst.BaseExpression], ...]
    open: bool


def told(roles: Roles, call: cst.Call) -> Told:
    """All that a call is told by name, be it by dictionaries that are written out or filled key by key."""
    options = of_call(roles, call)
    found = [(name, value) for name, values in options.named.items() for value in values]
    unknown = False
    for item, hidden in options.others:
        entries = list(_entries(roles, item))
        unknown = unknown or any(name is None for name, _ in entries)
        found += [(name, each) for name, each in entries if name is not None and name not in hidden]
    return Told(tuple(found), unknown)


def _entries(roles: Roles, item: Fact) -> Iterator[tuple[str | None, cst.BaseExpression]]:
    """The entries of a dictionary; those under no name are not known."""
    if item.kind is not Kind.MAPPING or not isinstance(item.node, (cst.Call, cst.Dict)):
        yield None, cst.Name("unknown")
        return
    for element in item.node.elements if isinstance(item.node, cst.Dict) else ():
        yield string_value(getattr(element, "key", None)), element.value
    yield from ((each.key, each.value) for each in added(roles, item.node))
