"""Conditions that let one process through: ``rank == 0``, ``not rank``, ``is_main_process()``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles import Kind
from xla_transforms.roles.calls import sites
from xla_transforms.roles.classes import find_method, is_property
from xla_transforms.roles.facts import of_kind
from xla_transforms.roles.ranks import LOCAL_RANK, PLACES
from xla_transforms.scopes import Binding, How, parameters
from xla_transforms.tree import body_of, is_docstring, number_value, same, value_of

if TYPE_CHECKING:
    from xla_transforms.replicas import Replicas

_NEVER_MASTER = {cst.NotEqual: False, cst.Equal: True, cst.In: True, cst.NotIn: False, cst.LessThan: True,
                 cst.LessThanEqual: True, cst.GreaterThan: False, cst.GreaterThanEqual: False}  # fmt: skip


@dataclass(frozen=True)
class Master:
    """What a condition says: with ``only`` it holds on the master alone, else on all but the master.

    ``rest`` are the parts joined to it by ``and`` that every replica answers alike; ``local`` tells that
    each host has a master of its own; ``part`` is what of the condition asks for the master.
    """

    only: bool
    local: bool = False
    rest: tuple[cst.BaseExpression, ...] = ()
    part: cst.BaseExpression | None = None


def master_of(replicas: Replicas, test: cst.BaseExpression) -> Master | None:
    found = replicas.roles.asked(("master of", id(test)), lambda: _master_of(replicas, test), None)
    if found is None or found.rest:
        return found
    return replace(found, part=test)


def _master_of(replicas: Replicas, test: cst.BaseExpression) -> Master | None:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _negated(replicas, test)
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return _both(replicas, test)
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or):
        return _or_single(replicas, test)
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        return _compared(replicas, test) or _is_there(replicas, test)
    if isinstance(test, cst.Call):
        return _asked(replicas, test)
    if isinstance(test, cst.IfExp):
        return _either(replicas, test)
    if isinstance(test, (cst.Name, cst.Attribute)):
        return _computed(replicas, test) or _named(replicas, test) or _held(replicas, test, asked=True)
    return None


def _negated(replicas: Replicas, test: cst.UnaryOperation) -> Master | None:
    if place := _place(replicas, test.expression):
        return Master(True, place == LOCAL_RANK)
    inner = master_of(replicas, test.expression)
    return Master(not inner.only, inner.local) if inner is not None and not inner.rest else None


def _both(replicas: Replicas, test: cst.BooleanOperation) -> Master | None:
    left, right = master_of(replicas, test.left), master_of(replicas, test.right)
    if left is not None and right is not None:
        part = left.part if right.rest else right.part
        both = Master(True, left.local and right.local, (*left.rest, *right.rest), part)
        return both if left.only and right.only else None
    if left is not None:
        return replace(left, rest=(*left.rest, test.right))
    return replace(right, rest=(test.left, *right.rest)) if right is not None else None


def _or_single(replicas: Replicas, test: cst.BooleanOperation) -> Master | None:
    """``not distributed or (distributed and rank == 0)``: a single process is its own master."""
    alone, found = test.left, master_of(replicas, test.right)
    if not isinstance(alone, cst.UnaryOperation) or not isinstance(alone.operator, cst.Not):
        return None
    if found is None or not found.only or any(not same(part, alone.expression) for part in found.rest):
        return None
    return Master(True, found.local)


def _either(replicas: Replicas, test: cst.IfExp) -> Master | None:
    """``local_rank == 0 if local else rank == 0``: a master in any case."""
    ways = [master_of(replicas, way) for way in (test.body, test.orelse)]
    found = [way for way in ways if way is not None and not way.rest]
    if len(found) < 2 or found[0].only is not found[1].only:
        return None
    return Master(found[0].only, all(way.local for way in found))


def _compared(replicas: Replicas, test: cst.Comparison) -> Master | None:
    target = test.comparisons[0]
    place, only = _place(replicas, test.left), _NEVER_MASTER.get(type(target.operator))
    if not place or only is None:
        return None
    values, operator = _values(target.comparator), type(target.operator)
    if operator in (cst.In, cst.NotIn):
        means = values is not None and values <= {0, -1}
    elif operator in (cst.LessThan, cst.GreaterThanEqual):
        means = values == {1}
    else:  # a single process has no rank, or -1: == -1 asks for that, not for the master
        means = values == {0}
    return Master(only, place == LOCAL_RANK) if means else None


def _values(node: cst.BaseExpression) -> set[int | float] | None:
    if isinstance(node, (cst.Tuple, cst.List, cst.Set)):
        each = [_values(e.value) for e in node.elements]
        return None if None in each else {v for one in each for v in one or ()}
    value = number_value(node)
    return {value} if value is not None else None


def _place(replicas: Replicas, node: cst.BaseExpression) -> str:
    number = replicas.number(node)
    return number if number in PLACES else ""


def _asked(replicas: Replicas, call: cst.Call) -> Master | None:
    """A function of the program whose one ``return`` is such a condition."""
    functions = [f.node for f in of_kind(replicas.roles.facts(call.func), Kind.FUNCTION)]
    return _answered(replicas, functions[0]) if len(functions) == 1 else None


def _computed(replicas: Replicas, node: cst.Name | cst.Attribute) -> Master | None:
    """A property of an object of the program: ``trainer.is_main``."""
    if not isinstance(node, cst.Attribute):
        return None
    found = _methods(replicas, node)
    function = found.pop() if len(found) == 1 else None
    computed = function is not None and is_property(replicas.roles, function)
    return _answered(replicas, function) if computed else None


def _answered(replicas: Replicas, function: cst.CSTNode | None) -> Master | None:
    if not isinstance(function, cst.FunctionDef):
        return None
    exits = [e for e in replicas.roles.exits(function) if isinstance(e, cst.Return)]
    if len(exits) != 1 or exits[0].value is None or len(_statements(function)) != 1:
        return None
    with replicas.roles.guarded(("master", function)) as free:
        return master_of(replicas, exits[0].value) if free else None


def says(replicas: Replicas, test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """A condition with what it stands for: the values of a variable, what a function or a property gives."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return [test, *says(replicas, test.expression)]
    functions: list[cst.CSTNode | None] = []
    if isinstance(test, cst.Call):
        functions = [f.node for f in of_kind(replicas.roles.facts(test.func), Kind.FUNCTION)]
    elif isinstance(test, cst.Attribute):
        functions = list(_methods(replicas, test))
    exits = [e for f in functions if isinstance(f, cst.FunctionDef) for e in replicas.roles.exits(f)]
    given = [e.value for e in exits if isinstance(e, cst.Return) and e.value is not None]
    return [test, *values_behind(replicas, test), *given]


def _methods(replicas: Replicas, node: cst.Attribute) -> set[cst.FunctionDef | None]:
    classes = [f.node for f in of_kind(replicas.roles.facts(node.value), Kind.INSTANCE)]
    return {find_method(replicas.roles, c, node.attr.value) for c in classes if isinstance(c, cst.ClassDef)}


def _statements(function: cst.FunctionDef) -> list[cst.CSTNode]:
    """The statements of a function, its docstring left out."""
    return [s for s in body_of(function) if not is_docstring(s)]


def _named(replicas: Replicas, node: cst.BaseExpression) -> Master | None:
    """``is_master`` for ``is_master = rank == 0``."""
    with replicas.roles.guarded(("master", node)) as free:
        found = [master_of(replicas, value) for value in values_behind(replicas, node)] if free else []
    first = found[0] if found else None
    if first is None or len(found) == 1:
        return first
    same_for_all = all(m is not None and replace(m, part=None) == replace(first, part=None) for m in found)
    return first if same_for_all and not first.rest else None


def _is_there(replicas: Replicas, test: cst.Comparison) -> Master | None:
    """``writer is not None``."""
    target = test.comparisons[0]
    if getattr(target.comparator, "value", "") != "None" or not isinstance(
        target.operator, (cst.Is, cst.IsNot)
    ):
        return None
    held = _held(replicas, test.left)
    return replace(held, only=isinstance(target.operator, cst.IsNot)) if held is not None else None


def _held(replicas: Replicas, node: cst.BaseExpression, *, asked: bool = False) -> Master | None:
    """What only the master has: ``writer = SummaryWriter() if rank == 0 else None``.

    Where its truth is ``asked`` that may be an answer, too, which the others have not:
    ``better = score > best if rank == 0 else None``.
    """
    first, absent, answer = None, False, False
    for value in values_behind(replicas, node):
        if _nothing(value):
            absent = True
            continue
        with replicas.roles.guarded(("held", value)) as free:
            found = _given(replicas, value) if free else None
        if found is None or not found.only or found.rest:
            return None
        absent = absent or isinstance(value, cst.IfExp)
        answer = answer or not _is_object(replicas, value)
        first = first or replace(found, part=None)
    if first is None or not asked:
        return first
    if not absent:
        return None  # where it is asked at all it is the master's own
    return replace(first, rest=(node,)) if answer else first


def _nothing(value: cst.BaseExpression) -> bool:
    return getattr(value, "value", "") in ("None", "False")


def _is_object(replicas: Replicas, value: cst.BaseExpression) -> bool:
    """Whether a value is an object that is made or opened, which is true, and not an answer."""
    if isinstance(value, cst.IfExp):
        return _is_object(replicas, value.body)
    if not isinstance(value, cst.Call):
        return False
    path = replicas.roles.path(value.func)
    if path.startswith("builtins."):
        return path == "builtins.open"
    functions = [f.node for f in of_kind(replicas.roles.facts(value.func), Kind.FUNCTION)]
    made = [e for f in functions if isinstance(f, cst.FunctionDef) for e in replicas.roles.exits(f)]
    given = [e.value for e in made if isinstance(e, cst.Return) and e.value is not None]
    if not functions:
        return not replicas.roles.kinds(value) & {Kind.BOOLEAN, Kind.NUMBER, Kind.TENSOR}
    with replicas.roles.guarded(("object", value)) as free:
        return free and bool(given) and all(_made(replicas, v) for v in given)


def _made(replicas: Replicas, value: cst.BaseExpression) -> bool:
    """Whether what a function gives back is an object, be it by a name."""
    bound = values_behind(replicas, value)
    return all(_is_object(replicas, v) for v in bound) if bound else _is_object(replicas, value)


def _given(replicas: Replicas, value: cst.BaseExpression) -> Master | None:
    """The condition under which a value is given at all."""
    if isinstance(value, cst.IfExp):
        return master_of(replicas, value.test) if _nothing(value.orelse) else None
    index = replicas.roles.index(value)
    for outer in index.ancestors(value):
        if isinstance(outer, (cst.FunctionDef, cst.Lambda)):
            return None
        if isinstance(outer, cst.If) and index.within(value, outer.body):
            return master_of(replicas, outer.test)
    return None


def values_behind(replicas: Replicas, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a variable, a parameter or an attribute is given; nothing where not all of that is seen."""
    roles = replicas.roles
    if isinstance(node, cst.Name):
        found = roles.bindings(node)
    elif isinstance(node, cst.Attribute):
        found = list(roles.program.attributes.get(node.attr.value, ()))
    else:
        return []
    values = [value for binding in found for value in _values_of(replicas, binding)]
    return [value for value in values if value is not None] if None not in values else []


def _values_of(replicas: Replicas, binding: Binding) -> Sequence[cst.BaseExpression | None]:
    """What a binding gives a name: a parameter has what all that call the function hand over."""
    function = binding.statement
    if binding.how is not How.PARAMETER:
        return [binding.piece if not binding.path or binding.piece is not binding.value else None]
    params = parameters(function) if isinstance(function, cst.FunctionDef) else []
    position = next((i for i, p in enumerate(params) if p is binding.node), None)
    if position is None or not isinstance(function, cst.FunctionDef):
        return [None]
    name = params[position].name.value
    return [value_of(c, name, position - taken) for c, taken in sites(replicas.roles, function)] or [None]
