"""Optimizers under a default device: their step count lives there and is read for each parameter.

Adam and its like make the count with ``torch.tensor(0.0)``, which ``torch.set_default_device`` puts on the
XLA device; reading it is an execution a parameter and step. ``capturable=True`` keeps it a tensor.
Source: pytorch v2.9, ``torch/optim/adam.py``, ``_init_group`` and ``_get_value``; counted on torch_xla 2.9.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.placing import may_be_cpu
from xla_transforms.roles import Kind
from xla_transforms.roles.facts import of_kind
from xla_transforms.tree import argument, has_star, string_value

CAPTURABLE = Rule(
    "XLA406",
    "step-count-on-device",
    "Where new tensors are made on the device, optimizers count their steps there, without reading.",
    "Each parameter's step count is read in every step otherwise: an execution each (torch/optim/adam.py).",
    Severity.WARNING,
)
RULES = (CAPTURABLE,)

_COUNTING = frozenset(
    {"Adadelta", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"}
)  # fmt: skip
_ADVICE = (
    "pass capturable=True where the device is XLA's, or give tensors their device one by one and drop"
    " set_default_device"
)


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla or not _default_device(context):
        return
    for call in list(context.index.all(cst.Call)):
        if isinstance(call, cst.Call) and _class_of(context, call) in _COUNTING:
            _count_there(context, call)


def _default_device(context: Context) -> bool:
    """Whether the program makes the CUDA device the default of new tensors."""
    calls = context.program.calls
    for call in calls.get("set_default_device", ()):
        torch = context.roles.path(call.func) == "torch.set_default_device"
        if torch and call.args and not _on_host(context, call.args[0].value):
            return True
    for call in calls.get("set_default_tensor_type", ()):
        word = string_value(call.args[0].value) if call.args else None
        path = context.roles.path(call.args[0].value) if call.args else ""
        if (word or path).startswith("torch.cuda."):
            return True
    return False


def _on_host(context: Context, device: cst.BaseExpression) -> bool:
    return string_value(device) == "cpu" or {f.detail for f in context.roles.facts(device)} == {"cpu"}


def _class_of(context: Context, call: cst.Call) -> str:
    found = {f.detail for f in of_kind(context.roles.facts(call), Kind.OPTIMIZER) if f.node is call}
    path = found.pop() if len(found) == 1 else ""
    return path.removeprefix("torch.optim.") if path.startswith("torch.optim.") else ""


def _count_there(context: Context, call: cst.Call) -> None:
    if argument(call, "capturable") is not None:
        return
    last = call.args[-1] if call.args else None
    if last is None or has_star(call) or may_be_cpu(context, call) or not context.plan.free(last):
        message = "its step counts live on the device and are read in every step, one by one"
        context.plan.report(CAPTURABLE, call, message, _ADVICE)
        return
    change = context.plan.change(CAPTURABLE, call, "the step count stays on the device")
    change.wrap(last, "{0}, capturable=True")
