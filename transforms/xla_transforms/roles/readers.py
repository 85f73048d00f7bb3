"""Functions of a program that read a launcher's variable by a name that they are given.

``def env_int(name, default): return int(os.environ.get(name, default))``, with one name or with those that
several launchers give it, which are tried one after the other. Which number comes back is the call's to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from xla_transforms.roles import ranks
from xla_transforms.roles.facts import NOTHING, Facts, Kind, fact
from xla_transforms.scopes import Binding, How, parameters
from xla_transforms.tree import argument, string_value, walk

if TYPE_CHECKING:
    from xla_transforms.roles import Roles


class Reader(NamedTuple):
    """The parameter that holds the names; whether a number comes back, or the text of the variable."""

    names: cst.Param
    number: bool


def of_call(roles: Roles, call: cst.Call, function: cst.CSTNode) -> Facts:
    """The number of a process or of all, where a call has a function read it from the environment."""
    if not call.args or not isinstance(function, cst.FunctionDef):
        return NOTHING
    reader = roles.asked(("reads variables", function), lambda: _reader(roles, function), None)
    if reader is None:
        return NOTHING
    texts = [string_value(n) or "" for value in _given(call, function, reader.names) for n in walk(value)]
    meanings = {ranks.VARIABLES[text] for text in texts if text in ranks.VARIABLES}
    if len(meanings) != 1:
        return NOTHING
    return fact(Kind.NUMBER if reader.number else Kind.ENVIRONMENT, meanings.pop(), call)


def _given(call: cst.Call, function: cst.FunctionDef, names: cst.Param) -> list[cst.BaseExpression]:
    if names is function.params.star_arg:
        start = len(function.params.posonly_params) + len(function.params.params)
        return [a.value for a in call.args[start:] if a.keyword is None]
    position = next((i for i, p in enumerate(parameters(function)) if p is names), None)
    found = argument(call, names.name.value, position)
    return [found.value] if found is not None else []


def _reader(roles: Roles, function: cst.FunctionDef) -> Reader | None:
    """What a function reads, if each way out of it gives a variable back, or what is given in its place."""
    values = [e.value for e in roles.exits(function) if isinstance(e, cst.Return) and e.value is not None]
    ways = [way for value in values for way in _ways(roles, value, cast=False)]
    read = [way for way in ways if isinstance(way, Reader)]
    if not read or len(set(read)) != 1 or any(way is None for way in ways):
        return None
    return read[0]


def _ways(roles: Roles, value: cst.BaseExpression, *, cast: bool) -> Iterator[Reader | str | None]:
    """What a value may be: a variable that is read, something given instead, or what is not understood.

    A value that is made of itself, in a loop, is none but what it was made of before.
    """
    if isinstance(value, cst.Call) and roles.path(value.func) == "builtins.int" and len(value.args) == 1:
        yield from _ways(roles, value.args[0].value, cast=True)
    elif isinstance(value, cst.IfExp):
        yield from (w for side in (value.body, value.orelse) for w in _ways(roles, side, cast=cast))
    elif isinstance(value, cst.BooleanOperation):
        yield from (w for side in (value.left, value.right) for w in _ways(roles, side, cast=cast))
    elif (key := ranks.key_of(roles, value)) is not None:
        names = _parameter(roles, key)
        yield Reader(names, cast) if names is not None else None
    elif isinstance(value, cst.Name) and (bound := roles.bindings(value)):
        for binding in bound:
            if binding.how is How.ASSIGN and binding.value is not None and not binding.path:
                with roles.guarded(("way", binding.node)) as free:
                    yield from _ways(roles, binding.value, cast=cast) if free else ()
            else:
                yield "given" if binding.how is How.PARAMETER else None
    else:
        yield "given" if not any(isinstance(n, (cst.Call, cst.Attribute)) for n in walk(value)) else None


def _parameter(roles: Roles, key: cst.BaseExpression) -> cst.Param | None:
    """The parameter that a name comes from, be it one of those in a tuple or list of names."""
    binding = _only(roles, key)
    if binding is not None and binding.how is How.ITERATE and not binding.path:
        binding = _only(roles, binding.value)
    return binding.node if binding is not None and isinstance(binding.node, cst.Param) else None


def _only(roles: Roles, name: cst.CSTNode | None) -> Binding | None:
    """The one binding that a name has."""
    found = roles.bindings(name) if isinstance(name, cst.Name) else []
    return found[0] if len(found) == 1 else None
