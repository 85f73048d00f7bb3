"""Tensors that grow from step to step: each length is a new shape, and a new compilation.

Nothing is rewritten: what else reads the tensor in the loop decides what is to be done.
Source: pytorch/xla docs, "Recompilation"; on torch_xla 2.9 a loop that generates compiled at each token.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.loops import Loop
from xla_transforms.scopes import How
from xla_transforms.tree import same, walk

GROWING = Rule(
    "XLA907",
    "growing-shape",
    "A tensor is made longer in each step.",
    "Each length is a shape of its own, and everything that is computed with it is compiled again.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (GROWING,)

_JOINERS = frozenset(
    f"torch.{name}" for name in ("cat", "concat", "concatenate", "hstack", "vstack", "dstack", "column_stack")
)
_ADVICE = (
    "keep the pieces in a list and join them behind the loop; where the loop reads the whole, as one that "
    "generates does, write into a tensor of the full length"
)


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for call, path in context.reached:
        loop = context.loops.of(call) if path in _JOINERS else None
        grown = _grown(context, loop, call) if loop is not None else None
        if grown is not None and not context.roles.dead(call):
            message = f"{grown.value} grows in every step, and each length is a new compilation"
            context.plan.report(GROWING, call, message, _ADVICE)


def _grown(context: Context, loop: Loop, call: cst.Call) -> cst.Name | None:
    """The name that a call joins something to, and whose value comes from the steps before."""
    assign = context.index.parent(call)
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1 or not call.args:
        return None
    target, pieces = assign.targets[0].target, call.args[0].value
    if not isinstance(target, cst.Name) or not isinstance(pieces, (cst.List, cst.Tuple)):
        return None
    joined = [element.value for element in pieces.elements if same(element.value, target)]
    if not joined or not context.loops.reads.on_device(joined[0]):
        return None
    return target if not _made_anew(context, loop, target, assign) else None


def _made_anew(context: Context, loop: Loop, target: cst.Name, assign: cst.Assign) -> bool:
    """Whether a step begins with another value: then its length is the same in each."""
    scope = context.index.scope_of(target).owner(target.value)
    bindings = scope.bindings[target.value] if scope is not None else ()
    others = [b for b in bindings if b.statement is not assign and b.how is not How.PARAMETER]
    inside = {id(node) for node in walk(loop.node)}
    return any(id(b.statement) in inside and not _joins(b.value, target) for b in others)


def _joins(value: cst.CSTNode | None, target: cst.Name) -> bool:
    return isinstance(value, cst.Call) and any(same(node, target) for node in walk(value))
