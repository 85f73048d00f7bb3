"""Availability: ``torch.cuda.is_available()`` was true, and what hung on it is decided.

A choice is replaced by the way that was taken, a branch by its body; what is left of a condition is the
user's own part: ``not args.no_cuda and torch.cuda.is_available()`` becomes ``not args.no_cuda``.
Source: pytorch v2.9, ``torch.cuda.is_available`` is false beside an XLA device, and so is
``torch.accelerator.is_available``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.branches import Branches
from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.naming import is_word
from xla_transforms.plan import Planned
from xla_transforms.roles import Kind
from xla_transforms.roles.fold import (
    FALSE_ON_CUDA,
    IN_GROUP,
    TRUE_ON_CUDA,
    counts_devices,
    finds_amp,
    launched,
    numbers_gpu,
)
from xla_transforms.tree import walk

AVAILABLE = Rule(
    "XLA114",
    "cuda-available",
    "A condition on CUDA's presence is decided as it was with a CUDA device.",
    "torch.cuda.is_available() is False on XLA: the script would silently train on the CPU.",
)
GROUPED = Rule(
    "XLA134",
    "process-group-asked",
    "A condition on the process group or a launcher's environment is decided as in its processes.",
    "No group is initialised and no launcher speaks to the processes of torch_xla.launch: the script would "
    "take itself for a single process.",
)
EMPTY = Rule(
    "XLA115",
    "guard-of-nothing",
    "A guard goes away when all that it guarded was for CUDA alone.",
    "What was left would be an if with nothing to do.",
)
RULES = (AVAILABLE, GROUPED, EMPTY)

_CONDITIONS = (cst.BooleanOperation, cst.UnaryOperation, cst.Comparison, cst.Call)


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    folds = Folds(context)
    for node in list(context.index.all(*_CONDITIONS)):
        if isinstance(node, cst.BaseExpression) and folds.is_root(node):
            folds.settle(node)
    _empty_guards(context, folds)


class Folds:
    """Decides conditions on the presence of CUDA, each with the condition around it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.branches = Branches(context)
        self.decided: set[cst.CSTNode] = set()

    def value(self, node: cst.CSTNode) -> bool | None:
        """What a condition made of questions about CUDA's presence was; names are left to the reader."""
        if isinstance(node, cst.BooleanOperation):
            sides = [self.value(node.left), self.value(node.right)]
            decisive = isinstance(node.operator, cst.Or)
            if decisive in sides:
                return decisive
            return None if None in sides else not decisive
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            inner = self.value(node.expression)
            return None if inner is None else not inner
        return self.context.roles.fold(node) if self.is_atom(node) else None

    def is_atom(self, node: cst.CSTNode) -> bool:
        roles = self.context.roles
        if finds_amp(roles, node) is not None:
            return True
        if isinstance(node, cst.Comparison):
            counts = counts_devices(roles, node.left)
            return counts or self.is_grouped(node) or (numbers_gpu(roles, node) and self._moves_inside(node))
        decided = isinstance(node, cst.Call) and roles.path(node.func) in TRUE_ON_CUDA | FALSE_ON_CUDA
        return decided or self.is_grouped(node)

    def is_grouped(self, node: cst.CSTNode) -> bool:
        """Whether a node asks whether there are several processes."""
        if not self.context.distributed or not self.context.roles.replicated:
            return False
        call = isinstance(node, cst.Call) and self.context.roles.path(node.func) in IN_GROUP
        return call or launched(self.context.roles, node)

    def _moves_inside(self, node: cst.CSTNode) -> bool:
        """Whether moves or choices of a device hang on a condition (or only a message does)."""
        choices = (cst.If, cst.IfExp)
        guard = next((a for a in self.context.index.ancestors(node) if isinstance(a, choices)), None)
        if guard is None or not self.context.index.within(node, guard.test):
            return False
        ways = [guard.body, *([guard.orelse] if guard.orelse is not None else [])]
        return any(self._moves(n) for way in ways for n in walk(way))

    def _moves(self, node: cst.CSTNode) -> bool:
        named = isinstance(node, cst.Attribute) and node.attr.value in ("cuda", "to", "DataParallel")
        return named or is_word(node) or self.context.roles.path(node) == "torch.device"

    def is_root(self, node: cst.BaseExpression) -> bool:
        """Whether a node is a whole condition that asks for CUDA's presence."""
        parent = self.context.index.parent(node)
        if isinstance(parent, cst.BooleanOperation):
            return False
        if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
            return False
        if isinstance(node, (cst.Call, cst.Comparison)):
            return self.is_atom(node)
        if isinstance(node, cst.UnaryOperation) and not isinstance(node.operator, cst.Not):
            return False
        return any(self._asks_for_cuda(n) for n in walk(node))

    def _asks_for_cuda(self, node: cst.CSTNode) -> bool:
        if not self.is_atom(node):
            return False
        elsewhere = isinstance(node, cst.Call) and self.context.roles.path(node.func) in FALSE_ON_CUDA
        return not elsewhere or self.is_grouped(node)

    def _change(self, node: cst.CSTNode, asked: cst.CSTNode, message: str) -> Planned:
        """A change that is due to what ``asked`` asks for: CUDA, or several processes."""
        grouped = any(self.is_grouped(n) for n in walk(asked))
        rule, text = (GROUPED, "there are several processes") if grouped else (AVAILABLE, message)
        return self.context.plan.change(rule, node, text)

    def settle(self, node: cst.BaseExpression) -> None:
        if not self.context.plan.free(node) or self.context.roles.dead(node):
            return
        value = self.value(node)
        if value is None:
            self._shorten(node)
        elif not self._only_elsewhere(node):
            self._decide(node, value)

    def _only_elsewhere(self, node: cst.BaseExpression) -> bool:
        """Whether a condition asks for other devices alone (``mps``): false here as it was there."""
        return not any(self._asks_for_cuda(n) for n in walk(node))

    def _shorten(self, node: cst.BaseExpression) -> None:
        """Take the decided sides out of a condition that the user still decides."""
        if not isinstance(node, cst.BooleanOperation):
            if isinstance(node, cst.UnaryOperation):
                self._shorten(node.expression)
            return
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if self.value(side) is not None and not self._only_elsewhere(side):
                message = "CUDA was there; what is left is the user's own choice"
                change = self._change(node, side, message)
                change.wrap(node, "{1}", other)
                self._shorten(other)
                return
        self._shorten(node.left)
        self._shorten(node.right)

    def _decide(self, node: cst.BaseExpression, value: bool) -> None:
        parent = self.context.index.parent(node)
        if isinstance(parent, cst.If) and parent.test is node:
            self._branch(self.branches.head(parent))
        elif isinstance(parent, cst.IfExp) and parent.test is node:
            self._choose(parent, value)
        elif isinstance(parent, cst.Expr) or (isinstance(parent, cst.Assert) and value):
            self._remove(parent)
        elif not self._shown(parent):
            change = self._change(node, node, "CUDA was there, and XLA is")
            change.replace(node, str(value))

    def _branch(self, head: cst.If) -> None:
        if head not in self.decided and not self.context.plan.taken(head):
            self.decided.add(head)
            grouped = any(self.is_grouped(n) for n in walk(head.test))
            self.branches.decide(GROUPED if grouped else AVAILABLE, head, self._verdict)

    def _verdict(self, test: cst.CSTNode) -> bool | None:
        """What a branch's condition was, where it asks for CUDA."""
        asks = any(self._asks_for_cuda(n) for n in walk(test))
        return self.value(test) if asks else None

    def _choose(self, node: cst.IfExp, value: bool) -> None:
        if not self.context.plan.free(node):
            return
        parent = self.context.index.parent(node)
        alone = isinstance(parent, (cst.Assign, cst.AnnAssign, cst.Return, cst.Arg))
        change = self._change(node, node.test, "the way that was taken on CUDA is taken")
        change.wrap(node, "{1}", node.body if value else node.orelse, brackets=alone)

    def _remove(self, statement: cst.CSTNode) -> None:
        if not self.context.plan.taken(statement):
            change = self._change(statement, statement, "CUDA's presence needs no check")
            change.remove(statement)

    def _shown(self, parent: cst.CSTNode | None) -> bool:
        """Whether an answer is only shown: then it stays the truth about CUDA."""
        while isinstance(parent, (cst.Element, cst.Tuple)):
            parent = self.context.index.parent(parent)
        if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, cst.Modulo):
            return Kind.STRING in self.context.roles.kinds(parent.left)
        call = self.context.index.parent(parent) if isinstance(parent, cst.Arg) else None
        shown = isinstance(call, cst.Call) and self.context.loops.reads.shows(call)
        return shown or isinstance(parent, cst.FormattedStringExpression)


def _empty_guards(context: Context, folds: Folds) -> None:
    """Guards whose whole body other passes took out."""
    branches = folds.branches
    for guard in reversed(list(context.index.all(cst.If))):
        assert isinstance(guard, cst.If)
        open_ = not context.plan.taken(guard) and branches.head(guard) not in folds.decided
        if open_ and branches.pointless(guard):
            with context.plan.together(needs=context.plan.writers(guard.body)):
                change = context.plan.change(EMPTY, guard, "nothing is left to guard")
            branches.drop(change, guard)
