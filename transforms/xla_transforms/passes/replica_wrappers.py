"""DistributedDataParallel: the wrapper goes; replicas start from equal weights and reduce at the step.

The wrapper sent the first replica's weights to the others when it was made, and averaged gradients in the
backward pass; ``xm.broadcast_master_param`` and ``xm.optimizer_step`` do so now.
Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``; the guide "How to do DistributedDataParallel".
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.plan import Planned
from xla_transforms.tree import value_of
from xla_transforms.unwrapping import unwrap, unwrap_modules

WRAPPER = Rule(
    "XLA141",
    "distributed-data-parallel",
    "DistributedDataParallel goes; every replica starts from the first one's weights.",
    "Kept beside xm.optimizer_step it would reduce every gradient twice (pytorch/xla#3915); its broadcast "
    "of the initial weights becomes xm.broadcast_master_param.",
)
MODULE = Rule(
    "XLA142",
    "distributed-module",
    "The .module of a DistributedDataParallel wrapper is the model itself.",
    "The wrapper is gone, and its attribute with it; keys of a state_dict stay as .module had them.",
)
UNEQUAL = Rule(
    "XLA143",
    "initial-weights",
    "It is not known what holds the model that was wrapped: its initial weights are not made equal.",
    "Replicas that start from different weights never agree (pytorch/xla#2911).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (WRAPPER, MODULE, UNEQUAL)


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    wrappers = context.replicas.wrappers
    for call in wrappers.calls:
        if context.roles.index(call) is context.index and context.plan.free(call):
            _unwrap(context, call)
    unwrap_modules(context, wrappers, MODULE)


def _unwrap(context: Context, call: cst.Call) -> None:
    change = context.plan.change(WRAPPER, call, "the optimizer's step reduces the gradients")
    holder, line = unwrap(context, change, call), context.index.statement_of(call)
    if holder is None or line is None:
        _before(context, change, call)
    else:
        change.after(line, _broadcast(context, change, holder))


def _before(context: Context, change: Planned, call: cst.Call) -> None:
    """``return DDP(model)``: a model that has a name is made equal above."""
    inner, line = value_of(call, "module", 0), context.index.statement_of(call)
    if isinstance(inner, (cst.Name, cst.Attribute)) and isinstance(line, cst.SimpleStatementLine):
        change.before(line, _broadcast(context, change, context.index.source.code(inner)))
    else:
        advice = "call xm.broadcast_master_param(model) where the model is on its device"
        context.plan.report(UNEQUAL, call, "the model's initial weights differ between replicas", advice)


def _broadcast(context: Context, change: Planned, model: str) -> str:
    return change.spell(context.target.broadcast_master_param).replace("{0}", model)
