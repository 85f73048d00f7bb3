"""Choices between ``model.module`` and ``model``, and questions whether a model is wrapped.

Without the wrapper both are one: the choice goes, by whatever it was made. A check that a model is wrapped
would fail, and goes as well; any other question is told: its answer has changed.
Source: pytorch v2.9, ``torch/nn/parallel``: both wrappers hold the model as ``.module``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import libcst as cst

from xla_transforms.branches import Branches
from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles.catalog import DATA_PARALLEL, DISTRIBUTED_DATA_PARALLEL, FULLY_SHARDED
from xla_transforms.statements import write_part
from xla_transforms.tree import body_of, same, string_value, walk
from xla_transforms.wrappers import Wrappers

SETTLED = Rule(
    "XLA125",
    "wrapper-asked",
    "A choice between a wrapped model and the model in it goes: both ways are the same without the wrapper.",
    "The wrapper is gone: ``.module`` is the model itself, and a check for the wrapper would fail.",
)
LEFT = Rule(
    "XLA126",
    "wrapper-asked-left",
    "Whether a model is wrapped decides something else than how to reach it.",
    "The wrapper is gone, so that the answer is another one.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (SETTLED, LEFT)

_ASKS = frozenset(f"builtins.{name}" for name in ("isinstance", "hasattr", "type", "getattr"))
_JOINS = (cst.BooleanOperation, cst.UnaryOperation)


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    questions = Questions(context)
    with context.plan.together("data parallel"):
        for node in context.index.attributed("module"):
            questions.merge(node)
        for question, model in list(questions.all()):
            questions.settle(question, model)


class Questions:
    """The questions of one module for wrappers that the migration takes away."""

    def __init__(self, context: Context) -> None:
        self.context, self.roles = context, context.roles
        self.paths = DATA_PARALLEL | (DISTRIBUTED_DATA_PARALLEL if context.distributed else frozenset())
        self.wrappers = Wrappers(self.roles, self.paths)
        self._others = Wrappers(self.roles, (DISTRIBUTED_DATA_PARALLEL | FULLY_SHARDED) - self.paths)
        self.branches = Branches(context)
        self._seen: set[cst.CSTNode] = set()

    def all(self) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
        """Each question, with the model that it is asked of."""
        for node in self.context.index.all(cst.Call, cst.Comparison) if self.wrappers.calls else ():
            assert isinstance(node, cst.BaseExpression)
            model = self._asked(node)
            if model is not None and self.wrappers.holds(model) and not self.roles.dead(node):
                yield node, model

    def _asked(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """``m`` for ``isinstance(m, DDP)``, ``type(m) in (DDP, DP)`` and ``hasattr(m, "module")``."""
        if isinstance(node, cst.Comparison):
            return self._typed(node.left, node.comparisons)
        if not isinstance(node, cst.Call) or len(node.args) != 2:
            return None
        path, model, second = self.roles.path(node.func), node.args[0].value, node.args[1].value
        if path == "builtins.hasattr" and string_value(second) == "module":
            return None if self._has_module(model) else model
        return model if path == "builtins.isinstance" and self._gone(second) else None

    def _typed(
        self, left: cst.BaseExpression, targets: Sequence[cst.ComparisonTarget]
    ) -> cst.BaseExpression | None:
        if not isinstance(left, cst.Call) or self.roles.path(left.func) != "builtins.type":
            return None
        named = len(targets) == 1 and self._gone(targets[0].comparator)
        return left.args[0].value if named and len(left.args) == 1 else None

    def _gone(self, kinds: cst.BaseExpression | None) -> bool:
        """Whether only wrappers that go are named."""
        named = [e.value for e in kinds.elements] if isinstance(kinds, (cst.Tuple, cst.List)) else [kinds]
        return bool(named) and all(self.roles.path(kind) in self.paths for kind in named)

    def _has_module(self, model: cst.BaseExpression) -> bool:
        """Whether something else than a wrapper that goes may give a model its ``.module``."""
        written = self.roles.program.attributes.get("module", ())
        owners = {self.roles.index(b.node).class_of(b.node) for b in written}
        return self._others.holds(model) or any(f.node in owners for f in self.roles.facts(model))

    def merge(self, node: cst.Attribute) -> None:
        """Take out the choice that a ``.module`` is one way of, where the others do the same to the model."""
        if not self.wrappers.holds(node.value) or self.roles.dead(node):
            return
        for outer in self.context.index.ancestors(node):
            if isinstance(outer, cst.FunctionDef) or self.context.plan.taken(outer):
                return
            if isinstance(outer, cst.IfExp) and self._choice(outer, node.value):
                return
            if isinstance(outer, cst.If):
                self._alike(self.branches.head(outer), node.value)
                return

    def settle(self, question: cst.BaseExpression, model: cst.BaseExpression) -> None:
        """Take out what the question decides, or tell of it."""
        root = self._condition(question)
        place = self.context.index.parent(root)
        if place is None or place in self._seen or self.context.plan.taken(place):
            return
        self._seen.add(place)
        if not self._settled(place, root, question, model):
            code = self.context.index.source.code(model)
            message = f"{code} is no longer wrapped, and this asks whether it is"
            advice = "see that what it decides fits a model without wrapper"
            self.context.plan.report(LEFT, question, message, advice)

    def _condition(self, question: cst.BaseExpression) -> cst.BaseExpression:
        """The whole condition that a question is a part of."""
        outer = self.context.index.parent(question)
        return self._condition(outer) if isinstance(outer, _JOINS) else question

    def _settled(
        self,
        place: cst.CSTNode,
        root: cst.BaseExpression,
        question: cst.BaseExpression,
        model: cst.BaseExpression,
    ) -> bool:
        if isinstance(place, cst.IfExp) and place.test is root:
            return self._choice(place, model)
        if isinstance(place, cst.Assert) and root is question and not _denies(question):
            self._remove(place)
            return True
        if not isinstance(place, cst.If):
            return False
        head = self.branches.head(place)
        return self.branches.pointless(head) or self._alike(head, model) or self._alone(head, question, model)

    def _only_asks(self, test: cst.BaseExpression) -> bool:
        """Whether a condition can go: its calls only look at what they are given."""
        calls = (node for node in walk(test) if isinstance(node, (cst.Call, cst.NamedExpr, cst.Await)))
        return all(isinstance(n, cst.Call) and self.roles.path(n.func) in _ASKS for n in calls)

    def _choice(self, choice: cst.IfExp, model: cst.BaseExpression) -> bool:
        """``model.module if hasattr(model, "module") else model``."""
        bare = [_without(way, model) for way in (choice.body, choice.orelse)]
        if not self._only_asks(choice.test) or not same(*bare):
            return False
        part = choice.orelse if same(choice.orelse, bare[1]) else choice.body
        change = self.context.plan.change(SETTLED, choice, "both ways are the model itself")
        write_part(self.context, change, choice, part)
        return True

    def _alike(self, head: cst.If, model: cst.BaseExpression) -> bool:
        """An ``if`` of which each way does the same to the model."""
        ways = self.branches.ways(head)
        last, tests = ways[-1], [way.test for way in ways if isinstance(way, cst.If)]
        blocks = [_without(way.body, model) for way in ways]
        whole = isinstance(last, cst.Else) and all(map(self._only_asks, tests))
        if not whole or not all(same(block, blocks[-1]) for block in blocks):
            return False
        change = self.context.plan.change(SETTLED, head, "all ways are the same without the wrapper")
        if not self.branches.keep_block(change, head, last.body):
            change.replace(head.test, "False")
        return True

    def _alone(self, head: cst.If, question: cst.BaseExpression, model: cst.BaseExpression) -> bool:
        """A check that breaks the program off, or ``return model.module`` above ``return model``."""
        block = head.body.body
        if head.orelse is not None or len(block) != 1 or not self._only_asks(head.test):
            return False
        test, only = head.test, _small(block[0])
        denied = _denies(question) if test is question else getattr(test, "expression", None) is question
        checks = denied and isinstance(only, cst.Raise)
        below = _small(self._next(head))
        returns = isinstance(only, cst.Return) and below is not None and same(_without(only, model), below)
        if checks or returns:
            self._remove(head)
        return checks or returns

    def _next(self, statement: cst.CSTNode) -> cst.CSTNode | None:
        block = self.context.index.parent(statement)
        lines = body_of(block) if block is not None else []
        behind = (after for line, after in pairwise(lines) if line is statement)
        return next(behind, None)

    def _remove(self, statement: cst.CSTNode) -> None:
        change = self.context.plan.change(SETTLED, statement, "the model is no longer wrapped")
        change.remove(statement)


def _denies(question: cst.BaseExpression) -> bool:
    """Whether a question has yes for an answer where the model is not wrapped: ``type(m) is not DDP``."""
    operators = [t.operator for t in question.comparisons] if isinstance(question, cst.Comparison) else []
    return any(isinstance(one, (cst.NotIn, cst.IsNot, cst.NotEqual)) for one in operators)


def _small(line: cst.CSTNode | None) -> cst.CSTNode | None:
    """The one statement of a line."""
    alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    return line.body[0] if alone and isinstance(line, cst.SimpleStatementLine) else None


def _without(node: cst.CSTNode, model: cst.BaseExpression) -> cst.CSTNode:
    """A piece of code with the model itself for its ``.module``."""
    bare = node.visit(_Bare(model))
    assert isinstance(bare, cst.CSTNode)
    return bare


class _Bare(cst.CSTTransformer):
    def __init__(self, model: cst.BaseExpression) -> None:
        super().__init__()
        self.model = model

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        named = original_node.attr.value == "module" and same(original_node.value, self.model)
        return updated_node.value if named else updated_node
