"""A GPU chosen by its number: one process has one XLA device, so the number chooses nothing any more.

Source: pytorch/xla v2.9.0, the guide "PyTorch on XLA devices"; ``torch_xla.device(1)`` raises IndexError.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles import Kind
from xla_transforms.tree import value_of

NUMBER = Rule(
    "XLA118",
    "gpu-number",
    "The number of a GPU, as an option gives it, no longer chooses a device.",
    "A process has one XLA device; which of several it gets is said to the runtime (pytorch/xla v2.9.0).",
    Severity.INFO,
    Safety.DISPLAY,
)
RULES = (NUMBER,)


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla or context.distributed:
        return
    told: set[str] = set()
    for string in context.index.all(cst.FormattedString):
        if isinstance(string, cst.FormattedString) and not context.roles.dead(string):
            _report(context, _number_in(string), told)
    for call, path in context.reached:
        if path == "torch.device":
            _report(context, value_of(call, "index", 1), told)


def _number_in(string: cst.FormattedString) -> cst.BaseExpression | None:
    """The expression in ``f"cuda:{args.gpu}"``."""
    if len(string.parts) != 2:
        return None
    first, second = string.parts
    named = isinstance(first, cst.FormattedStringText) and first.value == "cuda:"
    return second.expression if named and isinstance(second, cst.FormattedStringExpression) else None


def _report(context: Context, number: cst.BaseExpression | None, told: set[str]) -> None:
    if not isinstance(number, (cst.Name, cst.Attribute)) or context.roles.kinds(number) == {Kind.NUMBER}:
        return
    text = context.index.source.code(number)
    if text not in told:
        told.add(text)
        message = f"{text} chose one of several GPUs and now chooses nothing: a process has one XLA device"
        context.plan.report(NUMBER, number, message, "leave the option out, or say so in its help")
