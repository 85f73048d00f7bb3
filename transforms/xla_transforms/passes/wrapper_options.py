"""What DistributedDataParallel was told beside its model: for some of it there is nothing on XLA.

Source: pytorch v2.9, ``torch/nn/parallel/distributed.py``; pytorch/xla v2.9.0, ``core/xla_model.py``,
``_fetch_gradients``: each replica reduces the gradients that it has, and all must have the same ones.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.tree import method, receiver, value_of

UNUSED = Rule(
    "XLA617",
    "unused-parameters",
    "Replicas may have gradients of different parameters.",
    "xm.reduce_gradients reduces the gradients that a replica has; where another one has others, both wait "
    "for ever (pytorch/xla v2.9.0, core/xla_model.py).",
    Severity.WARNING,
    Safety.DISPLAY,
)
METHOD = Rule(
    "XLA618",
    "wrapper-method",
    "A method of DistributedDataParallel has no counterpart.",
    "The wrapper is gone, and its methods with it (torch/nn/parallel/distributed.py).",
    Severity.ERROR,
    Safety.DISPLAY,
)
LEFT_OUT = Rule(
    "XLA621",
    "parameters-left-out",
    "DistributedDataParallel left parameters out whose gradients are averaged now.",
    "xm.broadcast_master_param and xm.reduce_gradients know of no such list: experts of which each process "
    "has its own become equal (pytorch/xla v2.9.0, core/xla_model.py).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (UNUSED, METHOD, LEFT_OUT)

_METHODS = {
    "register_comm_hook": "leave it out: gradients are averaged as they are",
    "join": "leave it out, and see that all replicas have as many batches (drop_last=True)",
}
_IGNORED = "_ddp_params_and_buffers_to_ignore"
_IGNORES = "_set_params_and_buffers_to_ignore_for_model"
_JOIN = "torch.distributed.algorithms.join.Join"


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    wrappers = context.replicas.wrappers
    for call in wrappers.calls:
        if context.roles.index(call) is context.index:
            _unused(context, call)
    _joined(context)
    if wrappers.calls and (place := _left_out(context)) is not None:
        message = "DistributedDataParallel left out what is named here; on XLA parameters among it are "
        message += "averaged, and buffers sent, as all others are"
        advice = "broadcast the other parameters alone, and average their gradients alone (xm.all_reduce "
        advice += "with scale=) before a plain optimizer.step()"
        context.plan.report(LEFT_OUT, place, message, advice)
    for name, advice in _METHODS.items():
        for call in context.program.calls.get(name, ()):
            base = receiver(call) if context.roles.index(call) is context.index else None
            if base is not None and method(call) == name and wrappers.holds(base):
                message = f"{name}() is a method of DistributedDataParallel, which is gone"
                context.plan.report(METHOD, call, message, advice)


def _joined(context: Context) -> None:
    """``with Join([model, optimizer]):`` needs what the wrapper had."""
    for call, path in context.reached if context.program.mentions("Join") else ():
        if path == _JOIN and any(context.replicas.wrappers.holds(value) for value in _listed(call)):
            message = "Join() asks a model for what DistributedDataParallel gave it, and that is gone"
            context.plan.report(METHOD, call, message, _METHODS["join"])


def _left_out(context: Context) -> cst.CSTNode | None:
    """Where a module first says which parameters the wrapper has nothing to do with."""
    calls = [c for c in context.program.calls.get(_IGNORES, ()) if context.roles.index(c) is context.index]
    written = (cst.AssignTarget, cst.AugAssign)
    named = context.index.attributed(_IGNORED)
    return next(iter(calls), next((n for n in named if isinstance(context.index.parent(n), written)), None))


def _listed(call: cst.Call) -> list[cst.BaseExpression]:
    listed = value_of(call, "joinables", 0)
    return [e.value for e in listed.elements] if isinstance(listed, (cst.List, cst.Tuple)) else []


def _unused(context: Context, call: cst.Call) -> None:
    given = value_of(call, "find_unused_parameters")
    if given is not None and not (isinstance(given, cst.Name) and given.value == "False"):
        message = "find_unused_parameters: a parameter may have a gradient on some replicas only"
        advice = "add 0 * parameter.sum() of each to the loss, so that all have gradients everywhere"
        context.plan.report(UNUSED, call, message, advice)
