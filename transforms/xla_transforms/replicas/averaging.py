"""Gradients averaged by hand: ``dist.all_reduce(p.grad)`` for every parameter, then a division.

Such a loop, or a function that holds nothing else, means ``xm.reduce_gradients``; the step behind it stays
plain. Source: the tutorial "Writing Distributed Applications with PyTorch" (``average_gradients``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.loops.effects import Effects
from xla_transforms.loops.gradients import Gradients, stepped_by
from xla_transforms.replicas.collectives import short
from xla_transforms.roles import Kind
from xla_transforms.roles.calls import callers
from xla_transforms.roles.ranks import WORLD_SIZE
from xla_transforms.tree import body_of, dotted, method, number_value, receiver, value_of, walk

if TYPE_CHECKING:
    from xla_transforms.replicas import Replicas

_SUM, _MEAN = "torch.distributed.ReduceOp.SUM", "torch.distributed.ReduceOp.AVG"
_DIVISIONS = (cst.Divide, cst.DivideAssign)
_PRODUCTS = (cst.Multiply, cst.MultiplyAssign)


class Averaging:
    """The places of one program that average gradients by hand."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas = replicas
        self.roles = replicas.roles

    @cached_property
    def calls(self) -> list[cst.Call]:
        """Every ``all_reduce`` of a gradient."""
        found = self.roles.program.calls.get("all_reduce", ())
        return [c for c in found if short(self.roles.path(c.func)) == "all_reduce" and _gradient(c)]

    def averages(self, statement: cst.CSTNode) -> bool:
        """Whether a statement reduces gradients by hand, itself or in a function of the program it calls.

        Where models are wrapped, too, one that does so under a condition may stand for the wrapper's way:
        then the step reduces in any case. The mean of gradients that are equal already is the same.
        """
        chosen = isinstance(statement, cst.If) and self.roles.fold(statement.test) is not True
        if not self.calls or (chosen and self.replicas.wrappers.calls):
            return False
        return self._holds(statement, 0)

    def _holds(self, node: cst.CSTNode, depth: int) -> bool:
        for call in (n for n in walk(node, into_functions=False) if isinstance(n, cst.Call)):
            if any(call is one for one in self.calls):
                return True
            functions = [f.node for f in self.roles.facts(call.func) if f.kind is Kind.FUNCTION]
            bodies = [f.body for f in functions if isinstance(f, cst.FunctionDef)]
            if depth < 3 and any(self._holds(body, depth + 1) for body in bodies):
                return True
        return False

    # ---- what can be written as one reduction

    @cached_property
    def loops(self) -> list[cst.For]:
        """The loops over parameters that do nothing but average their gradients."""
        found: dict[cst.For, None] = {}
        for call in self.calls:
            index = self.roles.index(call)
            around = [a for a in index.statements(call) if isinstance(a, cst.For)]
            outer = [loop for loop in around if self._averages_only(loop)]
            if outer:
                found[outer[-1]] = None
        return list(found)

    def _averages_only(self, loop: cst.For) -> bool:
        if not _of_all(loop.iter):
            return False
        summed = divided = 0
        for small in _smalls(loop):
            if self._reduces(small):
                summed += 1
                divided += self._operation(small) == _MEAN
            elif self._divides(small):
                divided += 1
            elif not isinstance(small, (cst.Continue, cst.Pass)):
                return False
        return summed == 1 and divided == 1

    def _reduces(self, small: cst.CSTNode) -> bool:
        call = small.value if isinstance(small, cst.Expr) else None
        if not isinstance(call, cst.Call) or not any(call is one for one in self.calls):
            return False
        named = {a.keyword.value for a in call.args if a.keyword is not None}
        return named <= {"tensor", "op"} and self._operation(small) in (_SUM, _MEAN)

    def _operation(self, small: cst.CSTNode) -> str:
        assert isinstance(small, cst.Expr)
        assert isinstance(small.value, cst.Call)
        operation = value_of(small.value, "op", 1)
        return self.roles.path(operation) if operation is not None else _SUM

    def _divides(self, small: cst.CSTNode) -> bool:
        """``p.grad /= world_size`` in one of its spellings."""
        if isinstance(small, cst.AugAssign):
            return _is_gradient(small.target) and self._by(small.operator, small.value)
        if isinstance(small, cst.Assign) and isinstance(small.value, cst.BinaryOperation):
            target, value = small.targets[0].target, small.value
            return _is_gradient(target) and _is_gradient(value.left) and self._by(value.operator, value.right)
        call = small.value if isinstance(small, cst.Expr) else None
        if isinstance(call, cst.Call) and len(call.args) == 1 and _is_gradient(receiver(call)):
            operator = {"div_": cst.Divide(), "mul_": cst.Multiply()}.get(method(call))
            return operator is not None and self._by(operator, call.args[0].value)
        return False

    def _by(self, operator: cst.CSTNode, value: cst.BaseExpression) -> bool:
        if isinstance(operator, _DIVISIONS):
            return self._is_world_size(value)
        inverse = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Divide)
        if not isinstance(operator, _PRODUCTS) or not inverse:
            return False
        assert isinstance(value, cst.BinaryOperation)
        return number_value(value.left) == 1 and self._is_world_size(value.right)

    def _is_world_size(self, node: cst.BaseExpression) -> bool:
        """The world size, also as a ``float``."""
        if self.replicas.number(node) == WORLD_SIZE:
            return True
        if isinstance(node, cst.Call) and self.roles.path(node.func) == "builtins.float":
            return len(node.args) == 1 and self._is_world_size(node.args[0].value)
        if isinstance(node, cst.Name):
            values = [b.value for b in self.roles.bindings(node)]
            value = values[0] if len(values) == 1 else None
            with self.roles.guarded(("world size", node)) as free:
                return free and isinstance(value, cst.BaseExpression) and self._is_world_size(value)
        return False

    @cached_property
    def functions(self) -> list[cst.FunctionDef]:
        """The functions that hold nothing but such a loop, and whose every use is a call as a statement."""
        owners = {f: loop for loop in self.loops if (f := self.roles.index(loop).function_of(loop))}
        return [f for f, loop in owners.items() if self._only(f, loop) and self._called_bare(f)]

    def _only(self, function: cst.FunctionDef, loop: cst.For) -> bool:
        return all(line is loop or self._prepares(line) for line in body_of(function))

    def _prepares(self, line: cst.CSTNode) -> bool:
        """A docstring, or a variable for the world size."""
        smalls = body_of(line) if isinstance(line, cst.SimpleStatementLine) else []
        small = smalls[0] if len(smalls) == 1 else None
        if isinstance(small, cst.Assign):
            return self._is_world_size(small.value)
        text = small.value if isinstance(small, cst.Expr) else None
        return isinstance(text, (cst.SimpleString, cst.ConcatenatedString))

    def _called_bare(self, function: cst.FunctionDef) -> bool:
        name = function.name.value
        sites = {site for site, _ in callers(self.roles, function)}
        bare = all(isinstance(self.roles.index(s).parent(s), cst.Expr) for s in sites)
        indexes = self.roles.program.modules.values()
        named = [n for index in indexes for n in (*index.named(name), *index.attributed(name))]
        uses = [n for n in named if any(f.node is function for f in self.roles.facts(n))]
        return bool(sites) and bare and all(self._harmless(n, sites) for n in uses if n is not function.name)

    def _harmless(self, name: cst.CSTNode, sites: set[cst.Call]) -> bool:
        parent = self.roles.index(name).parent(name)
        return parent in sites or isinstance(parent, (cst.ImportAlias, cst.FunctionDef))

    @cached_property
    def reductions(self) -> dict[cst.CSTNode, list[cst.BaseExpression]]:
        """The statements that become ``xm.reduce_gradients``, each with the optimizers that step behind it.

        All places that average in one function are written anew, or none: half of it would not run.
        """
        found: dict[cst.CSTNode, list[cst.BaseExpression]] = {}
        gradients = Gradients(Effects(self.roles), self.averages)
        for call in self.roles.program.calls.get("step", ()) if self.loops else ():
            optimizer = stepped_by(gradients.effects, call)
            statement = gradients.way(call, optimizer).averaged if optimizer is not None else None
            if statement is not None and optimizer is not None and self._replaceable(statement):
                found.setdefault(statement, []).append(optimizer)
        return {s: found[s] for s in found if self._complete(s, found)}

    def _replaceable(self, statement: cst.CSTNode) -> bool:
        return statement in self.loops or self._function(statement) is not None

    def _function(self, statement: cst.CSTNode) -> cst.FunctionDef | None:
        """The averaging function that a statement calls and does nothing else."""
        expr = body_of(statement)[0] if isinstance(statement, cst.SimpleStatementLine) else None
        call = expr.value if isinstance(expr, cst.Expr) else None
        if not isinstance(call, cst.Call) or not isinstance(statement, cst.SimpleStatementLine):
            return None
        nodes = {f.node for f in self.roles.facts(call.func)} if len(statement.body) == 1 else set()
        return next((f for f in self.functions if f in nodes), None)

    def _complete(self, statement: cst.CSTNode, found: dict[cst.CSTNode, list[cst.BaseExpression]]) -> bool:
        function = self._function(statement)
        if function is None:
            return True
        sites = [self.roles.index(s).statement_of(s) for s, _ in callers(self.roles, function)]
        return all(site in found for site in sites)

    @cached_property
    def gone(self) -> list[cst.FunctionDef]:
        """The functions whose every call becomes a reduction."""
        return list({f: None for s in self.reductions if (f := self._function(s)) is not None})


def _gradient(call: cst.Call) -> bool:
    value = value_of(call, "tensor", 0)
    return value is not None and _is_gradient(value)


def _is_gradient(node: cst.BaseExpression | None) -> bool:
    """``p.grad`` or ``p.grad.data``."""
    return dotted(node).endswith((".grad", ".grad.data"))


def _smalls(statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The small statements of loops over parameters, and of tests whether there is a gradient."""
    for inner in body_of(statement):
        if isinstance(inner, cst.SimpleStatementLine):
            yield from inner.body
        elif isinstance(inner, cst.For) or (isinstance(inner, cst.If) and _asks_for_gradient(inner)):
            yield from _smalls(inner)
        else:
            yield inner


def _asks_for_gradient(statement: cst.If) -> bool:
    """``if p.grad is None``, ``if p.requires_grad``, and both together."""
    words = {n.attr.value for n in walk(statement.test) if isinstance(n, cst.Attribute)}
    others = (cst.Call, cst.SimpleString, cst.Subscript, cst.Integer)
    plain = not any(isinstance(n, others) for n in walk(statement.test))
    return statement.orelse is None and plain and bool(words) and words <= {"grad", "data", "requires_grad"}


def _of_all(iterable: cst.BaseExpression) -> bool:
    """Whether an iterable looks like all parameters of a model or of an optimizer."""
    for node in walk(iterable):
        if method(node) in ("parameters", "named_parameters"):
            return True
        if isinstance(node, cst.Attribute) and node.attr.value == "param_groups":
            return True
    return False
