"""Tensors of the CPU that a wrapped model was given: the wrapper brought them to its device.

Without it the call does. A part of a batch may be a list, or a dictionary: the wrapper looks into those.
Source: pytorch v2.9, ``torch/nn/parallel/data_parallel.py``, ``scatter``, and ``distributed.py``,
``_pre_forward``: with ``device_ids`` the inputs are moved; pytorch/xla v2.9.0, ``xla_model.py``,
``send_cpu_data_to_device``, which gives a list for a single tensor.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.placing import device_here
from xla_transforms.roles import Kind
from xla_transforms.wrappers import wrapped_models

SENT = Rule(
    "XLA123",
    "wrapped-input",
    "What DataParallel or DistributedDataParallel brought to the device for a model is moved there.",
    "The wrappers move the tensors that a model is called with; without one the model meets a tensor of the "
    "CPU (pytorch v2.9, torch/nn/parallel/data_parallel.py).",
)
RULES = (SENT,)

_ON_HOST = ("host", "batch")
_OF_TENSORS = frozenset(
    {
        "to", "cuda", "cpu", "numpy", "size", "dim", "ndim", "shape", "dtype", "numel", "view", "reshape",
        "float", "long", "half", "unsqueeze", "squeeze", "permute", "transpose", "contiguous", "mean", "sum",
    }
)  # fmt: skip


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    wrapped = wrapped_models(context.roles)
    for call in context.index.all(cst.Call) if wrapped.calls else ():
        assert isinstance(call, cst.Call)
        if not call.args or context.roles.dead(call) or not wrapped.holds(call.func):
            continue
        loop = context.loops.of(call)
        for arg in call.args:
            batch = loop is not None and loop.wrapped and _place(context, arg.value) == "batch"
            if arg.star or batch or _place(context, arg.value) not in _ON_HOST:
                continue
            if context.plan.free(arg.value):
                change = context.plan.change(SENT, arg.value, "the wrapper brought it to the device")
                device = device_here(context, arg.value, change)
                if _has_to(context, arg.value):
                    change.wrap(arg.value, f"{{0}}.to({device})")
                else:
                    change.wrap(arg.value, change.spell(context.target.send).replace("{1}", device))


def _place(context: Context, value: cst.BaseExpression) -> str:
    """Where a tensor is natively; empty where that is not known, or for what is none."""
    facts = context.roles.facts(value)
    places = {fact.detail for fact in facts if fact.kind is Kind.TENSOR}
    plain = isinstance(value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    return places.pop() if plain and len(places) == 1 and len(facts) == 1 else ""


def _has_to(context: Context, value: cst.BaseExpression) -> bool:
    """Whether a value has a ``to()``: what torch made, and a part of a batch that is used as a tensor."""
    if _place(context, value) == "host":
        return True
    if not isinstance(value, cst.Name):
        return False
    scope = context.index.scope_of(value).owner(value.value)
    return not _OF_TENSORS.isdisjoint(context.index.uses.get((scope, value.value), ()))
