"""Optimizer steps: ``optimizer.step()`` becomes ``xm.optimizer_step(optimizer)``.

``xm.optimizer_step`` reduces the gradients over the replicas (nothing to do on one) and steps. Where
gradients are clipped or read between backward and step they are reduced first and the step stays plain:
clipping each replica's own gradient and then averaging is another, smaller step. A gradient scaler of
torch_xla keeps its step; the gradients are reduced before it unscales them, so that all replicas see the
same infinite ones.
Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``optimizer_step`` and ``reduce_gradients``.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.loops.effects import Effect
from xla_transforms.plan import Planned
from xla_transforms.roles import Kind
from xla_transforms.scalers import SCALERS, on_device, unwound
from xla_transforms.tree import body_of, method, receiver, same, value_of, walk

STEP = Rule(
    "XLA611",
    "optimizer-step",
    "An optimizer's step goes through xm.optimizer_step.",
    "It averages the gradients over the replicas before it steps "
    "(pytorch/xla guide: PyTorch on XLA devices).",
)
REDUCE = Rule(
    "XLA612",
    "reduce-before-clip",
    "Gradients that are clipped or read before the step are reduced first; the step stays plain.",
    "Reduce, clip, step is what DDP does; clip, reduce, step is another step (pytorch/xla#1708).",
)
CLOSURE = Rule(
    "XLA613",
    "step-with-closure",
    "A step that takes a closure stays plain.",
    "xm.optimizer_step would reduce before the closure computes its gradients (LBFGS).",
)
UNRESOLVED = Rule(
    "XLA614",
    "unresolved-step",
    "Something is stepped in a training loop, and the analysis does not know what it is.",
    "An optimizer's step that stays plain lets replicas train alone (pytorch/xla#2374).",
    Severity.WARNING,
)
RULES = (STEP, REDUCE, CLOSURE, UNRESOLVED)


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for call in list(context.index.all(cst.Call)):
        if isinstance(call, cst.Call) and method(call) == "step" and not context.plan.taken(call):
            _step(context, call)


def _step(context: Context, call: cst.Call) -> None:
    base = receiver(call)
    assert base is not None
    kinds = context.roles.kinds(base)
    if kinds == {Kind.SCALER}:
        optimizer = value_of(call, "optimizer", 0)
        if optimizer is not None and unwound(context, base):
            with context.plan.together(SCALERS):
                _write(context, call, optimizer, plain=False)
        elif optimizer is not None and on_device(context):
            _reduce_scaled(context, call, optimizer)
    elif kinds == {Kind.OPTIMIZER}:
        _write(context, call, base, plain=True)
    elif kinds <= {Kind.NAME} and not call.args:
        _unresolved(context, call)


def _write(context: Context, call: cst.Call, optimizer: cst.BaseExpression, *, plain: bool) -> None:
    if plain and call.args:
        message = "the step recomputes the loss in its closure: it stays as it is"
        context.plan.report(CLOSURE, call, message, "on several replicas reduce inside the closure")
        return
    clip = _first_clip(context, call)
    if clip is None:
        change = context.plan.change(STEP, call, "reduces the gradients over the replicas, then steps")
        change.replace(call, change.spell(context.target.optimizer_step), optimizer)
        return
    change = context.plan.change(REDUCE, clip, "gradients are reduced before they are clipped or read")
    _reduce(context, change, clip, optimizer)
    if not plain:
        change.replace(call, "{0}.step()", optimizer)


def _reduce(
    context: Context, change: Planned, statement: cst.CSTNode, optimizer: cst.BaseExpression
) -> None:
    text = change.spell(context.target.reduce_gradients)
    change.before(statement, text.replace("{0}", context.index.source.code(optimizer)))


def _reduce_scaled(context: Context, call: cst.Call, optimizer: cst.BaseExpression) -> None:
    """Reduce what a scaler steps with, before it is unscaled, clipped or read."""
    place = _first_clip(context, call, unscaled=optimizer) or context.index.statement_of(call)
    if place is not None:
        change = context.plan.change(REDUCE, place, "gradients are reduced before they are unscaled")
        _reduce(context, change, place, optimizer)


def _first_clip(
    context: Context, step: cst.Call, unscaled: cst.BaseExpression | None = None
) -> cst.CSTNode | None:
    """The statement, in a block around the step, that first clips or reads gradients since the backward.

    With ``unscaled``, an optimizer, that a scaler unscales its gradients counts as well.
    """
    statement: cst.CSTNode | None = context.index.statement_of(step)
    found: cst.CSTNode | None = None
    while statement is not None and not isinstance(statement, (cst.For, cst.While, cst.FunctionDef)):
        block = context.index.parent(statement)
        body = list(getattr(block, "body", ())) if isinstance(block, (cst.IndentedBlock, cst.Module)) else []
        position = next((i for i, item in enumerate(body) if item is statement), 0)
        found, done = _scan(context, body[:position], found, unscaled)
        if done:
            return found
        if block is None or isinstance(block, cst.Module):
            break
        statement = context.index.parent(block)
    return found


def _scan(
    context: Context,
    statements: Sequence[cst.CSTNode],
    found: cst.CSTNode | None,
    unscaled: cst.BaseExpression | None,
) -> tuple[cst.CSTNode | None, bool]:
    """The same for a block from its end, and whether its backward (or an earlier step) was met."""
    effects = context.loops.effects
    for earlier in reversed(statements):
        ends = effects.of(earlier) & (Effect.BACKWARD | Effect.STEP)
        uses = effects.uses_gradients(earlier) or _unscales(earlier, unscaled)
        if unscaled is not None and ends == Effect.STEP:  # of another optimizer, unscaled beside this one
            ends = Effect.NONE
        if ends and uses and isinstance(earlier, cst.With):
            return _scan(context, body_of(earlier), found, unscaled)
        if ends:
            return found, True
        found = earlier if uses else found
    return found, False


def _unscales(statement: cst.CSTNode, optimizer: cst.BaseExpression | None) -> bool:
    calls = (n for n in walk(statement) if isinstance(n, cst.Call) and method(n) == "unscale_")
    return optimizer is not None and any(same(value_of(c, "optimizer", 0), optimizer) for c in calls)


def _unresolved(context: Context, call: cst.Call) -> None:
    function = context.index.function_of(call)
    loop = context.loops.of(call)
    work = context.loops.effects.of_function(function) if function is not None else Effect.NONE
    if loop is not None:
        work |= loop.effect
    if work & Effect.BACKWARD:
        name = context.index.source.code(call.func)
        context.plan.report(
            UNRESOLVED,
            call,
            f"{name}() is called beside a backward pass; whether it is an optimizer is not known",
            "if it is, write xm.optimizer_step(...) for it",
        )
