"""Numbers of a script that a message can tell: written out, computed from such, or an option's default."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.fold import number_of
from xla_transforms.roles.ranks import SIZES
from xla_transforms.scopes import Binding, How
from xla_transforms.tree import children, destination, number_value, same, value_of, walk

Number = int | float
_FAR = 4  # variables that are followed


def _power(base: Number, exponent: Number) -> object:
    """Computed in floating point: whole numbers may have more digits than anybody waits for."""
    number: object = float(base) ** exponent
    whole = isinstance(base, int) and isinstance(number, float) and number.is_integer() and abs(number) < 1e15
    return int(number) if whole and isinstance(number, float) else number


_OPERATORS: dict[type[cst.CSTNode], Callable[..., object]] = {
    cst.Add: operator.add,
    cst.Subtract: operator.sub,
    cst.Multiply: operator.mul,
    cst.Divide: operator.truediv,
    cst.FloorDivide: operator.floordiv,
    cst.Power: _power,
}
_FUNCTIONS: dict[str, Callable[..., object]] = {
    **{f"{package}.{name}": getattr(math, name)
       for package in ("math", "numpy") for name in ("sqrt", "log", "log2", "log10", "ceil", "floor")},
    **dict.fromkeys(("math.pow", "builtins.pow", "numpy.power"), _power),
    "builtins.abs": abs,
    "builtins.float": float,
    "builtins.int": int,
    "builtins.max": max,
    "builtins.min": min,
    "builtins.round": round,
}  # fmt: skip
_CHANGES: dict[type[cst.CSTNode], type[cst.CSTNode]] = {
    cst.AddAssign: cst.Add,
    cst.SubtractAssign: cst.Subtract,
    cst.MultiplyAssign: cst.Multiply,
    cst.DivideAssign: cst.Divide,
    cst.FloorDivideAssign: cst.FloorDivide,
    cst.PowerAssign: cst.Power,
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
        return _Reckoning(self.roles, replicas).value(self.node)

    @property
    def follows_replicas(self) -> bool:
        """Whether it is computed from the number of replicas."""
        return self.on(1) != self.on(2) or (self.on(1) is None and _counts(self.roles, self.node, 0))

    @property
    def by_replicas(self) -> str:
        """What becomes of it with more replicas: the numbers, or how many times as much, as far as known."""
        one, four = self.on(1), self.on(4)
        if one is not None and four is not None:
            return f"{plain(one)} on 1, {plain(four)} on 4"
        times = {_times(self.roles, self.node, unknown) for unknown in (1.0, 3.0)}
        factor = times.pop() if len(times) == 1 else None
        return f"on 4 it is {plain(factor)} times that on 1" if factor is not None else ""


def plain(number: Number) -> str:
    """A number as one tells it."""
    return f"{number:g}" if isinstance(number, float) else str(number)


def _times(roles: Roles, node: cst.BaseExpression, unknown: Number) -> Number | None:
    """How many times that of one replica a number is on four, if what is not known were this number."""
    one, four = (_Reckoning(roles, replicas, unknown).value(node) for replicas in (1, 4))
    return round(four / one, 6) if one and four is not None else None


def _counts(roles: Roles, node: cst.CSTNode, depth: int) -> bool:
    """Whether the number of replicas has a part in an expression, or in what its variables are given."""
    if isinstance(node, cst.BaseExpression) and _is_size(roles, node):
        return True
    if depth > _FAR:
        return False
    if isinstance(node, (cst.Name, cst.Attribute)):
        given = roles.bindings(node) if isinstance(node, cst.Name) else _changes(roles, node)
        values = [b.value for b in given if b.how in (How.ASSIGN, How.AUGMENT) and b.value is not None]
        return any(_counts(roles, value, depth + 1) for value in values)
    return any(_counts(roles, child, depth) for child in children(node))


def _is_size(roles: Roles, node: cst.BaseExpression) -> bool:
    return any(f.kind is Kind.NUMBER and f.detail in SIZES for f in roles.facts(node))


def _changes(roles: Roles, node: cst.Attribute) -> list[Binding]:
    """What the program gives an option of its command line: ``args.lr *= world_size``."""
    if Kind.ARGUMENTS not in roles.kinds(node.value):
        return []
    every = roles.program.attributes.get(node.attr.value, ())
    found = [b for b in every if isinstance(b.node, cst.Attribute) and same(b.node.value, node.value)]
    return [b for b in found if not roles.index(node).within(node, b.statement)]


@dataclass(frozen=True)
class _Reckoning:
    """Computes numbers on some number of replicas; ``unknown`` stands for those that nothing tells."""

    roles: Roles
    replicas: int
    unknown: Number | None = None

    def value(self, node: cst.BaseExpression, depth: int = 0) -> Number | None:
        if _is_size(self.roles, node):
            return self.replicas
        if depth > _FAR:
            return None
        if isinstance(node, cst.BinaryOperation):
            left, right = (self.value(side, depth + 1) for side in (node.left, node.right))
            return _result(type(node.operator), left, right)
        if isinstance(node, cst.Name) and number_of(self.roles, node) is None:
            return self._variable(node, depth)
        if isinstance(node, cst.Call):
            return self._call(node, depth)
        if isinstance(node, cst.Attribute):
            return self._option(node, depth)
        number = number_of(self.roles, node)
        return number if number is not None or _counts(self.roles, node, 0) else self.unknown

    def _variable(self, node: cst.Name, depth: int) -> Number | None:
        bound = self.roles.bindings(node)
        value = bound[0].value if len(bound) == 1 and not bound[0].path else None
        if value is not None and bound[0].how is How.ASSIGN:
            return self.value(value, depth + 1)
        return None if _counts(self.roles, node, 0) else self.unknown

    def _call(self, call: cst.Call, depth: int) -> Number | None:
        """What a cast, or a function of the mathematics, makes of numbers."""
        compute = _FUNCTIONS.get(self.roles.path(call.func))
        if compute is None or any(arg.keyword or arg.star for arg in call.args):
            return None if _counts(self.roles, call, 0) else self.unknown
        return _tried(compute, [self.value(arg.value, depth + 1) for arg in call.args])

    def _option(self, node: cst.Attribute, depth: int) -> Number | None:
        """An option as the program changes it: ``args.lr *= world_size``."""
        default = _default(self.roles, node)
        default = self.unknown if default is None else default
        changes = _changes(self.roles, node)
        change = changes[0] if len(changes) == 1 else None
        if change is None or change.value is None:
            return default if not changes or not _counts(self.roles, node, 0) else None
        value = self.value(change.value, depth + 1)
        if isinstance(change.statement, cst.AugAssign):
            return _result(_CHANGES.get(type(change.statement.operator)), default, value)
        return value


def _result(operation: type[cst.CSTNode] | None, left: Number | None, right: Number | None) -> Number | None:
    compute = _OPERATORS.get(operation) if operation is not None else None
    return _tried(compute, [left, right]) if compute is not None else None


def _tried(compute: Callable[..., object], values: list[Number | None]) -> Number | None:
    if None in values or not values:
        return None
    try:
        number = compute(*values)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return number if isinstance(number, (int, float)) else None


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
