"""``no_sync()``: gradients are reduced at the optimizer's step alone, so that nothing has to be held back.

Source: pytorch v2.9, ``torch/nn/parallel/distributed.py``, ``no_sync``; pytorch/xla v2.9.0,
``optimizer_step``: the gradients that have come together on each replica are averaged there, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.loops import Effect
from xla_transforms.plan import Planned
from xla_transforms.roles import Kind
from xla_transforms.statements import leave_with
from xla_transforms.tree import LOOPS, method, receiver, same, walk

DELAYED = Rule(
    "XLA147",
    "no-sync",
    "A no_sync() of DistributedDataParallel goes with the wrapper.",
    "Gradients are reduced once, at the optimizer's step, however many backward passes came before.",
)
RULES = (DELAYED,)


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    holds = context.replicas.wrappers.holds
    for call in list(context.index.all(cst.Call)):
        held = method(call) == "no_sync" and holds(receiver(call))
        if held and not context.roles.dead(call) and context.plan.free(call):
            _leave(context, call)
            assert isinstance(call, cst.Call)
            _left_over(context, call)
    for node in context.index.attributed("no_sync"):
        if context.plan.free(node) and not _called(context, node) and holds(node.value):
            change = _change(context, node)
            change.replace(node, f"{change.use('contextlib')}.nullcontext")
    for node in context.index.attributed("require_backward_grad_sync"):
        assign = context.index.parent(context.index.parent(node) or node)
        if isinstance(assign, cst.Assign) and not context.plan.taken(assign) and holds(node.value):
            _change(context, node).remove(assign)


def _change(context: Context, node: cst.CSTNode) -> Planned:
    return context.plan.change(DELAYED, node, "gradients are reduced at the step alone")


def _called(context: Context, node: cst.Attribute) -> bool:
    parent = context.index.parent(node)
    return isinstance(parent, cst.Call) and parent.func is node


def _leave(context: Context, call: cst.CSTNode) -> None:
    change = _change(context, call)
    item, choice = context.index.parent(call), context.index.parent(call)
    if isinstance(choice, cst.IfExp) and _other(context, choice, call):
        item = context.index.parent(choice)
    if isinstance(item, cst.WithItem) and item.asname is None and not context.plan.taken(item):
        leave_with(context, change, item)
    else:
        change.replace(call, f"{change.use('contextlib')}.nullcontext()")


def _other(context: Context, choice: cst.IfExp, call: cst.CSTNode) -> bool:
    """Whether the other way of a choice does nothing either, and asking for it changes nothing."""
    other = choice.orelse if choice.body is call else choice.body
    nothing = isinstance(other, cst.Call) and context.roles.path(other.func) == "contextlib.nullcontext"
    return nothing and not any(isinstance(n, cst.Call) for n in walk(choice.test))


# ---- steps whose last backward pass was under no_sync()


def _left_over(context: Context, call: cst.Call) -> None:
    """Tell of steps that took each process's own gradients, and take the mean of all replicas' now."""
    for step in _unreduced(context, call):
        message = (
            "the last backward pass before it may be under no_sync(): natively each process stepped with "
            "gradients of its own there, replicas step with their mean"
        )
        advice = "nothing, but that the numbers of a native run differ from there on"
        context.plan.report(DELAYED, step, message, advice, severity=Severity.WARNING)


def _unreduced(context: Context, call: cst.Call) -> Iterator[cst.CSTNode]:
    loop = next((a for a in context.index.ancestors(call) if isinstance(a, LOOPS)), None)
    synced = _when_synced(context, call)
    if loop is None or synced is None:
        return
    for step in context.program.calls.get("step", ()):
        if context.roles.index(step) is not context.index or not _steps(context, step):
            continue
        if context.index.within(step, loop):
            around = (a.test for a in context.index.ancestors(step) if isinstance(a, cst.If))
            parts = next((p for p in map(partial(_either, context), around) if len(p) > 1), [])
            if any(same(part, synced) for part in parts):
                yield step
        elif _behind(context, step, loop):
            yield step


def _steps(context: Context, call: cst.Call) -> bool:
    return bool(context.roles.kinds(receiver(call)) & {Kind.OPTIMIZER, Kind.SCALER})


def _when_synced(context: Context, call: cst.Call) -> cst.BaseExpression | None:
    """The condition under which the gradients of a backward pass are reduced all the same."""
    choice = context.index.parent(call)
    if isinstance(choice, cst.IfExp):
        return _said(context, choice.test if choice.orelse is call else _negated(choice.test))
    branch = next((a for a in context.index.ancestors(call) if isinstance(a, cst.If)), None)
    if branch is None:
        return None
    inside = context.index.within(call, branch.body)
    return _said(context, _negated(branch.test) if inside else branch.test)


def _negated(test: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return test.expression
    target = test.comparisons[0] if isinstance(test, cst.Comparison) else None
    if isinstance(test, cst.Comparison) and target is not None and isinstance(target.operator, cst.NotEqual):
        return test.with_changes(comparisons=[target.with_changes(operator=cst.Equal())])
    return cst.UnaryOperation(cst.Not(), test)


def _said(context: Context, test: cst.BaseExpression) -> cst.BaseExpression:
    """A condition, or what the variable was given that it is."""
    bound = context.roles.bindings(test) if isinstance(test, cst.Name) else []
    value = bound[0].value if len(bound) == 1 and not bound[0].path else None
    return value if value is not None else test


def _either(context: Context, test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The parts of a condition of which one is enough."""
    test = _said(context, test)
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or):
        return [*_either(context, test.left), *_either(context, test.right)]
    return [test]


def _behind(context: Context, step: cst.Call, loop: cst.For | cst.While) -> bool:
    """Whether a step is made behind a loop, and no backward pass between."""
    block = context.index.parent(loop)
    lines = list(block.body) if isinstance(block, (cst.IndentedBlock, cst.Module)) else []
    behind = lines[next((i + 1 for i, line in enumerate(lines) if line is loop), len(lines)) :]
    position = next((i for i, line in enumerate(behind) if context.index.within(step, line)), None)
    effects = context.loops.effects
    return position is not None and not any(
        effects.of(line) & Effect.BACKWARD for line in behind[: position + 1]
    )
