"""``no_sync()``: gradients are reduced at the optimizer's step alone, so that nothing has to be held back.

Source: pytorch v2.9, ``torch/nn/parallel/distributed.py``, ``no_sync``; pytorch/xla v2.9.0,
``optimizer_step``: the gradients that have come together on each replica are averaged there, once.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.plan import Planned
from xla_transforms.statements import leave_with
from xla_transforms.tree import method, receiver, walk

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
