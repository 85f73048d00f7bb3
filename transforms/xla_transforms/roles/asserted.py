"""What a program makes sure of before it goes on: ``assert issubclass(found, Trainer)``.

A class that is looked for by name, or a value from elsewhere, is known behind such a check all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles import declared
from xla_transforms.roles.facts import NOTHING, Facts, Kind, of_kind
from xla_transforms.tree import LOOPS, body_of

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

_BLOCKS = (cst.IndentedBlock, cst.Module)


def asserted(roles: Roles, name: cst.Name) -> Facts:
    """What is made sure of a name above its use, in no branch and without its being bound anew between."""
    index = roles.index(name)
    scope = index.scope_of(name).owner(name.value)
    if scope is None or name.value not in _checked(roles, name):
        return NOTHING
    bound = [b.statement for b in scope.bindings[name.value]]
    child: cst.CSTNode = name
    for parent in index.ancestors(name):
        anew = isinstance(parent, LOOPS) and _holds(roles, parent, bound)
        if anew or isinstance(parent, cst.FunctionDef):
            return NOTHING
        for statement in _above(parent, child) if isinstance(parent, _BLOCKS) else ():
            check = next((c for c in _checks(statement) if _asked(c) == name.value), None)
            if check is not None:
                return _told(roles, check)
            if _holds(roles, statement, bound):
                return NOTHING
        child = parent
    return NOTHING


def _checked(roles: Roles, node: cst.CSTNode) -> set[str]:
    """The names of which a module makes sure anywhere."""
    index = roles.index(node)
    statements = (s for s in index.all(cst.Assert, cst.If))
    found = lambda: {_asked(check) for s in statements for check in _checks(s)}  # noqa: E731
    return roles.remembered(("asserted", index.name), found)


def _above(block: cst.CSTNode, child: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The statements of a block above one of them, the nearest first."""
    body = body_of(block)
    place = next((i for i, statement in enumerate(body) if statement is child), 0)
    yield from reversed(body[:place])


def _holds(roles: Roles, outer: cst.CSTNode, statements: list[cst.CSTNode]) -> bool:
    index = roles.index(outer)
    return any(index.within(statement, outer) for statement in statements)


def _checks(statement: cst.CSTNode) -> Iterator[cst.Call]:
    """``isinstance(x, T)`` of ``assert isinstance(x, T) and ...`` and ``if not isinstance(x, T): raise``."""
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        statement = statement.body[0]
    if isinstance(statement, cst.Assert):
        yield from _parts(statement.test)
    elif isinstance(statement, cst.If) and _raises(statement):
        test = statement.test
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            yield from (c for c in _parts(test.expression) if c is test.expression)


def _raises(statement: cst.If) -> bool:
    last = body_of(statement)[-1:]
    return statement.orelse is None and any(isinstance(s, cst.Raise) for line in last for s in body_of(line))


def _parts(test: cst.BaseExpression) -> Iterator[cst.Call]:
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        yield from _parts(test.left)
        yield from _parts(test.right)
    elif isinstance(test, cst.Call) and len(test.args) == 2 and _asked(test):
        yield test


def _asked(check: cst.Call) -> str:
    """The name that a check asks about."""
    asks = isinstance(check.func, cst.Name) and check.func.value in ("isinstance", "issubclass")
    first = check.args[0].value if asks else None
    return first.value if isinstance(first, cst.Name) else ""


def _told(roles: Roles, check: cst.Call) -> Facts:
    kinds = check.args[1].value
    types = [e.value for e in kinds.elements] if isinstance(kinds, cst.Tuple) else [kinds]
    if roles.path(check.func) == "builtins.isinstance":
        return frozenset().union(*(declared.expression(roles, t) for t in types))
    return frozenset().union(*(of_kind(roles.facts(t), Kind.CLASS) for t in types))
