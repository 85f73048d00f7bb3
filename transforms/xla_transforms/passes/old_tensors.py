"""What PyTorch took away from tensors in 0.4 and 0.5: nothing is rewritten, but it is told.

Source: PyTorch 0.4.0, migration guide: a loss has no dimension (``loss.item()`` in the place of
``loss.data[0]``), and ``volatile`` gave way to ``torch.no_grad()``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.tree import argument, receiver, same

INDEXED = Rule(
    "XLA713",
    "indexed-loss",
    "A loss is indexed, though it has no dimension.",
    "Since PyTorch 0.5 it is an IndexError, natively as well (PyTorch 0.4.0, migration guide).",
    Severity.ERROR,
    Safety.DISPLAY,
)
VOLATILE = Rule(
    "XLA714",
    "volatile-variable",
    "A variable is made volatile, which has no effect any more.",
    "Since PyTorch 0.4 gradients are recorded all the same; torch.no_grad() is what volatile was "
    "(PyTorch 0.4.0, migration guide).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (INDEXED, VOLATILE)


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for node in context.index.all(cst.Subscript) if context.program.mentions("backward") else ():
        if isinstance(node, cst.Subscript) and _indexes_loss(context, node):
            context.plan.report(INDEXED, node, "a loss has no dimension to index", "write loss.item()")
    for call, path in context.reached if context.program.mentions("volatile") else ():
        if path == "torch.autograd.Variable" and argument(call, "volatile") is not None:
            message = "volatile has no effect: the graph for gradients is recorded"
            context.plan.report(VOLATILE, call, message, "compute it under torch.no_grad()")


def _indexes_loss(context: Context, node: cst.Subscript) -> bool:
    """``loss.data[0]`` of what the module calls ``backward()`` on, without a gradient: one number."""
    value = node.value
    if not isinstance(value, cst.Attribute) or value.attr.value != "data" or not _is_zero(node):
        return False
    index = context.index
    calls = (c for c in context.program.calls.get("backward", ()) if context.roles.index(c) is index)
    same_place = (c for c in calls if not c.args and index.function_of(c) is index.function_of(node))
    return any(same(receiver(call), value.value) for call in same_place)


def _is_zero(node: cst.Subscript) -> bool:
    inner = node.slice[0].slice if len(node.slice) == 1 else None
    return isinstance(inner, cst.Index) and isinstance(inner.value, cst.Integer) and inner.value.value == "0"
