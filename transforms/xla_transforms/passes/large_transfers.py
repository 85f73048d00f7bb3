"""Whole outputs of a model that every training step brings to the host.

Behind the step's barrier this costs no execution, but all of their bytes; often what is needed is small.
Source: pytorch/xla, "Troubleshooting" (the metric ``TransferFromDeviceTime``).
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.loops.deferral import Deferral
from xla_transforms.loops.effects import Effect
from xla_transforms.roles import Kind
from xla_transforms.scopes import How
from xla_transforms.tree import method, receiver

WHOLE = Rule(
    "XLA706",
    "large-host-transfer",
    "Whole outputs of a model are brought to the host in every training step.",
    "The host waits for all of their bytes in each step (pytorch/xla troubleshooting, "
    "TransferFromDeviceTime).",
    Severity.INFO,
    Safety.DISPLAY,
)
RULES = (WHOLE,)

_KEEPS = frozenset(
    {"detach", "cpu", "numpy", "tolist", "float", "double", "clone", "contiguous", "view", "reshape"}
)
_SAME_SHAPE = frozenset({"softmax", "log_softmax", "sigmoid", "tanh", "relu", "exp"})
_ADVICE = "fetch what is needed (argmax, a sum), or keep them on the device and fetch them once an epoch"
_DEPTH = 8


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for deferral in context.deferrals:
        if deferral.loop.effect & (Effect.BACKWARD | Effect.STEP):
            _examine(context, deferral)


def _examine(context: Context, deferral: Deferral) -> None:
    for unit in (unit for run in deferral.runs for unit in run.units if not unit.guards):
        for read in unit.reads:
            if isinstance(read, cst.Call) and _is_output(context, read, 0):
                text = " ".join(context.index.source.code(read).split())
                message = f"{text} brings whole outputs of the model to the host in every step"
                context.plan.report(WHOLE, read, message, _ADVICE)


def _is_output(context: Context, node: cst.BaseExpression, depth: int) -> bool:
    """Whether an expression is what a model gives, in all its size: no loss, and no part of it."""
    if depth > _DEPTH:
        return False
    if isinstance(node, cst.Name):
        bindings = context.roles.bindings(node)
        value = bindings[0].value if len(bindings) == 1 and bindings[0].how is How.ASSIGN else None
        plain = value is not None and not bindings[0].path and not _is_loss(context, node)
        return plain and value is not None and _is_output(context, value, depth + 1)
    if not isinstance(node, cst.Call):
        return False
    base, name = receiver(node), method(node)
    path = context.roles.path(node.func)
    if path.startswith("torch."):
        same = path.rpartition(".")[2] in _SAME_SHAPE and node.args
        return bool(same) and _is_output(context, node.args[0].value, depth + 1)
    if base is not None and name in _KEEPS | _SAME_SHAPE and not path:
        return _is_output(context, base, depth + 1)
    models = [f for f in context.roles.facts(node.func) if f.kind is Kind.MODEL]
    return bool(models) and not any(_computes_loss(f.detail, f.node) for f in models)


def _computes_loss(path: str, owner: cst.CSTNode | None) -> bool:
    name = owner.name.value if isinstance(owner, cst.ClassDef) else path.rpartition(".")[2]
    return "Loss" in name or "Criterion" in name


def _is_loss(context: Context, name: cst.Name) -> bool:
    """Whether a variable is one from which gradients are computed: a single number."""
    scope = context.index.scope_of(name).owner(name.value)
    uses = context.index.named_of(scope, name.value) if scope is not None else ()
    parents = (context.index.parent(use) for use in uses)
    return any(isinstance(p, cst.Attribute) and p.attr.value == "backward" for p in parents)
