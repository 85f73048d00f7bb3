"""Steps that take a closure: gradients are reduced inside of it, behind each backward pass.

``xm.optimizer_step`` would reduce before the closure computes its gradients. An optimizer that looks at the
loss (LBFGS) sees that of its own replica, as it did in each native process.
Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``optimizer_step``.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.loops.effects import Effect
from xla_transforms.roles import Kind
from xla_transforms.roles.classes import is_optimizer
from xla_transforms.roles.elsewhere import text_at
from xla_transforms.tree import method, receiver, value_of, walk

CLOSURE = Rule(
    "XLA613",
    "step-with-closure",
    "A step that takes a closure stays plain; replicas reduce their gradients inside the closure.",
    "xm.optimizer_step would reduce before the closure computes its gradients (LBFGS).",
)
RULES = (CLOSURE,)


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for call in list(context.index.all(cst.Call)):
        base = receiver(call)
        if not isinstance(call, cst.Call) or method(call) != "step" or not call.args or base is None:
            continue
        if is_optimizer(context.roles, base) and not context.plan.taken(call):
            _closure(context, call, base)


def _closure(context: Context, call: cst.Call, optimizer: cst.BaseExpression) -> None:
    if not context.distributed:
        message = "the step recomputes the loss in its closure: it stays as it is"
        context.plan.report(CLOSURE, call, message, "on several replicas reduce inside the closure")
        return
    closure, found = value_of(call, "closure", 0), []
    for function in (f.node for f in context.roles.facts(closure)) if closure is not None else ():
        if isinstance(function, cst.FunctionDef) and context.roles.index(function) is context.index:
            found += [(s, _named_in(context, optimizer, s, function)) for s in _backward(context, function)]
    for statement, name in found if all(name for _, name in found) else ():
        change = context.plan.change(CLOSURE, statement, "the gradients' mean is what the step sees")
        change.after(statement, change.spell(context.target.reduce_gradients).replace("{0}", name))
    if found and not all(name for _, name in found):
        message = "the step's closure has no name for the optimizer: nothing reduces its gradients"
        advice = "hand it the optimizer, and call xm.reduce_gradients(optimizer) behind its backward pass"
        context.plan.report(CLOSURE, call, message, advice, severity=Severity.ERROR)
    if not found:
        message = "the step's closure is not seen: its gradients are not reduced over the replicas"
        advice = "call xm.reduce_gradients(optimizer) in the closure, behind its backward pass"
        context.plan.report(CLOSURE, call, message, advice, severity=Severity.ERROR)


def _named_in(
    context: Context, optimizer: cst.BaseExpression, place: cst.CSTNode, closure: cst.FunctionDef
) -> str:
    """What the optimizer is called in a closure that another function may have made; empty for nothing."""
    if name := text_at(context.roles, optimizer, place):
        return name
    mine = context.roles.origins(optimizer, Kind.OPTIMIZER)
    for node in walk(closure.body):
        base = receiver(node) if method(node) == "zero_grad" else None
        if base is not None and mine and context.roles.origins(base, Kind.OPTIMIZER) == mine:
            return context.index.source.code(base)
    return ""


def _backward(context: Context, function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
    """The statements of a closure that run a backward pass."""
    for node in walk(function.body, into_functions=False):
        if isinstance(node, cst.Call) and context.loops.effects.of_call(node) & Effect.BACKWARD:
            statement = context.index.statement_of(node)
            if statement is not None:
                yield statement
