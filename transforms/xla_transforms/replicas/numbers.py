"""Numbers of a script that a message can tell: written out, computed from such, or an option's default."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.fold import number_of
from xla_transforms.roles.ranks import SIZES
from xla_transforms.tree import destination, number_value, same, value_of, walk

Number = int | float
_CASTS = ("builtins.int", "builtins.float")
_OPERATORS: dict[type[cst.CSTNode], Callable[[Number, Number], Number]] = {
    cst.Add: operator.add,
    cst.Subtract: operator.sub,
    cst.Multiply: operator.mul,
    cst.Divide: operator.truediv,
    cst.FloorDivide: operator.floordiv,
}
_CHANGES: dict[type[cst.CSTNode], type[cst.CSTNode]] = {
    cst.AddAssign: cst.Add,
    cst.SubtractAssign: cst.Subtract,
    cst.MultiplyAssign: cst.Multiply,
    cst.DivideAssign: cst.Divide,
    cst.FloorDivideAssign: cst.FloorDivide,
}


@dataclass(frozen=True)
class Amount:
    """The number that an expression has, or has by default, on some number of replicas, if it is known."""

    roles: Roles
    node: cst.BaseExpression

    @property
    def text(self) -> str:
        """The expression as it is written, with its number where that is not the same."""
        code = " ".join(self.roles.index(self.node).source.code(self.node).split())
        number = self.on(1)
        if number is None or number_value(self.node) is not None:
            return code
        optional = _optional(self.roles, self.node, 0)
        return f"{code} ({plain(number)} by default)" if optional else f"{code} = {plain(number)}"

    def on(self, replicas: int) -> Number | None:
        """The number where there are so many replicas."""
        return _value(self.roles, self.node, replicas, 0)

    @property
    def follows_replicas(self) -> bool:
        """Whether it is computed from the number of replicas."""
        one, two = self.on(1), self.on(2)
        return one is not None and two is not None and one != two


def plain(number: Number) -> str:
    """A number as one tells it."""
    return f"{number:g}" if isinstance(number, float) else str(number)


def _value(roles: Roles, node: cst.BaseExpression, replicas: int, depth: int) -> Number | None:
    if any(f.kind is Kind.NUMBER and f.detail in SIZES for f in roles.facts(node)):
        return replicas
    if depth > 4:
        return None
    if isinstance(node, cst.BinaryOperation):
        return _computed(roles, node, replicas, depth)
    if isinstance(node, cst.Name) and number_of(roles, node) is None:
        bound = roles.bindings(node)
        value = bound[0].value if len(bound) == 1 and not bound[0].path else None
        return _value(roles, value, replicas, depth + 1) if value is not None else None
    if isinstance(node, cst.Call) and roles.path(node.func) in _CASTS and node.args:
        return _value(roles, node.args[0].value, replicas, depth + 1)
    if isinstance(node, cst.Attribute):
        return _option(roles, node, replicas, depth)
    return number_of(roles, node)


def _computed(roles: Roles, node: cst.BinaryOperation, replicas: int, depth: int) -> Number | None:
    left, right = (_value(roles, side, replicas, depth + 1) for side in (node.left, node.right))
    return _result(type(node.operator), left, right)


def _option(roles: Roles, node: cst.Attribute, replicas: int, depth: int) -> Number | None:
    """An option as the program changes it: ``args.lr *= world_size``."""
    default = _default(roles, node)
    every = roles.program.attributes.get(node.attr.value, ()) if default is not None else ()
    changes = [b for b in every if isinstance(b.node, cst.Attribute) and same(b.node.value, node.value)]
    change = changes[0] if len(changes) == 1 else None
    if change is None or change.value is None or roles.index(node).within(node, change.statement):
        return default
    value = _value(roles, change.value, replicas, depth + 1)
    if isinstance(change.statement, cst.AugAssign):
        return _result(_CHANGES.get(type(change.statement.operator)), default, value)
    return value


def _result(operation: type[cst.CSTNode] | None, left: Number | None, right: Number | None) -> Number | None:
    compute = _OPERATORS.get(operation) if operation is not None else None
    if compute is None or left is None or right is None:
        return None
    try:
        return compute(left, right)
    except (ArithmeticError, ValueError):
        return None


def _optional(roles: Roles, node: cst.BaseExpression, depth: int) -> bool:
    """Whether an option of the command line has a part in a number."""
    names = [n for n in walk(node) if isinstance(n, cst.Name)] if depth < 4 else []
    values = [b.value for name in names for b in roles.bindings(name) if b.value is not None]
    own = any(isinstance(n, cst.Attribute) for n in walk(node))
    return own or any(_optional(roles, value, depth + 1) for value in values)


def _default(roles: Roles, node: cst.Attribute) -> Number | None:
    """What an option of the command line is where nothing is given."""
    if Kind.ARGUMENTS not in roles.kinds(node.value):
        return None
    every = roles.program.calls.get("add_argument", ())
    adds = [add for add in every if destination(add) == node.attr.value]
    return number_of(roles, value_of(adds[0], "default")) if len(adds) == 1 else None


def learning_rates(roles: Roles) -> list[Amount]:
    """What the optimizers of a program are given as learning rates."""
    made = [c for calls in roles.program.calls.values() for c in calls if _makes_optimizer(roles, c)]
    rates = (value_of(call, "lr", 1) for call in made)
    return [Amount(roles, rate) for rate in rates if rate is not None]


def _makes_optimizer(roles: Roles, call: cst.Call) -> bool:
    path = roles.path(call.func)
    return path.startswith("torch.optim.") and not path.startswith("torch.optim.lr_scheduler.")
