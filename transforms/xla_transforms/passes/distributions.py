"""Distributions do not check their arguments: each check would read the device in every step.

Source: PyTorch, ``torch/distributions/distribution.py``: ``validate_args`` is on by default.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.loops.hot import HotPath
from xla_transforms.tree import argument, has_star

UNCHECKED = Rule(
    "XLA704",
    "distribution-checks",
    "Distributions are made without the check of their arguments.",
    "The check asks whether all values are valid, which waits for the device (torch.distributions).",
    Severity.WARNING,
    Safety.UNSAFE,
)
RULES = (UNCHECKED,)


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for call in HotPath(context.loops).nodes(cst.Call):
        if isinstance(call, cst.Call) and _checks(context, call) and not context.plan.taken(call):
            _uncheck(context, call)


def _checks(context: Context, call: cst.Call) -> bool:
    package, _, name = context.roles.path(call.func).rpartition(".")
    made = package == "torch.distributions" and name[:1].isupper()
    return made and argument(call, "validate_args") is None


def _uncheck(context: Context, call: cst.Call) -> None:
    hidden = has_star(call) or len([arg for arg in call.args if arg.keyword is None]) > 2
    if hidden or any(isinstance(a, cst.Try) for a in context.index.ancestors(call)):
        message = "it may check its arguments, which reads the device in every step"
        context.plan.report(UNCHECKED, call, message, "pass validate_args=False")
    elif any(context.loops.reads.on_device(arg.value) for arg in call.args):
        change = context.plan.change(UNCHECKED, call, "checking the arguments would read the device")
        change.wrap(call.args[-1], "{0}, validate_args=False")
