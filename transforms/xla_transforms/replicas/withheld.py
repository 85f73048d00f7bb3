"""What keeps some replicas from a place other than an ``if`` around it or above it.

A function that is decorated or made for some alone, an arm of ``match rank``, an object that they alone have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles import Kind
from xla_transforms.roles.ranks import PLACES
from xla_transforms.scopes import parameters
from xla_transforms.tree import walk

if TYPE_CHECKING:
    from xla_transforms.replicas.alone import Alone


def withholding(alone: Alone, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The decorators, arms, calls of a lambda and makings of an object that let some alone come to a node."""
    yield from arms(alone, node)
    yield from _lambdas(alone, node)
    function = alone.roles.index(node).function_of(node)
    if function is not None:
        yield from decorators(alone, function)
        yield from makings(alone, function)


def arms(alone: Alone, node: cst.CSTNode) -> Iterator[cst.Match]:
    """``match rank:`` around a node, in its function."""
    for outer in alone.roles.index(node).ancestors(node):
        if isinstance(outer, (cst.FunctionDef, cst.Lambda)):
            return
        if isinstance(outer, cst.Match) and alone.replicas.number(outer.subject) in PLACES:
            yield outer


def _lambdas(alone: Alone, node: cst.CSTNode) -> Iterator[cst.Call]:
    """The calls that some alone make of a lambda around a node."""
    around = [a for a in alone.roles.index(node).ancestors(node) if isinstance(a, cst.Lambda)]
    for outer in around:
        target = getattr(alone.roles.index(outer).statement_of(outer), "body", ())
        names = {n.value for line in target for n in walk(line) if isinstance(n, cst.Name)}
        for call in (c for name in sorted(names) for c in alone.roles.program.calls.get(name, ())):
            called = any(f.node is outer for f in alone.roles.facts(call.func))
            if called and (alone.chosen(call) or alone.choosing(call) is not None):
                yield call


def decorators(alone: Alone, function: cst.FunctionDef) -> Iterator[cst.Decorator]:
    """The decorators of the program that let some replicas alone run a function."""
    for decorator in function.decorators:
        for made in (f.node for f in alone.roles.facts(decorator.decorator) if f.kind is Kind.FUNCTION):
            if isinstance(made, cst.FunctionDef) and any(map(alone.chosen, _runs(made))):
                yield decorator


def makings(alone: Alone, function: cst.FunctionDef) -> list[cst.Call]:
    """The calls that make the object of a method, where only some replicas make any."""
    owner = alone.roles.index(function).class_of(function)
    calls = alone.roles.program.calls.get(owner.name.value, ()) if isinstance(owner, cst.ClassDef) else ()
    made = [c for c in calls if any(f.node is owner for f in alone.roles.facts(c.func))]
    return made if all(alone.chosen(c) or alone.choosing(c) is not None for c in made) else []


def _runs(decorator: cst.FunctionDef) -> Iterator[cst.Call]:
    """The calls of what a decorator is given."""
    names = [p.name.value for p in parameters(decorator)][:1]
    for node in walk(decorator.body):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in names:
            yield node
