"""Types: ``torch.cuda.FloatTensor`` and its kin, as constructors, as casts and by other names.

``torch.cuda.FloatTensor(x)`` becomes ``torch.FloatTensor(x).to(device)``, ``x.type(torch.cuda.LongTensor)``
becomes ``x.to(device, torch.int64)``. There are no tensor types for XLA: ``x.type()`` gives
``"torch.xla.FloatTensor"``, which names no attribute of torch.
Source: pytorch v2.9, "Tensor class reference" (legacy constructors); pytorch/xla v2.9.0.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.placing import device_here
from xla_transforms.roles.types import DTYPES
from xla_transforms.tree import method, receiver, string_value, value_of

MADE = Rule(
    "XLA108",
    "cuda-tensor",
    "A tensor made by a CUDA tensor type is made by the CPU's type and moved.",
    "torch.cuda.FloatTensor raises without CUDA.",
)
CAST = Rule(
    "XLA109",
    "cuda-cast",
    "A cast to a CUDA tensor type becomes a move with a dtype.",
    "x.type('torch.cuda.FloatTensor') raises without CUDA.",
)
TYPE_LEFT = Rule(
    "XLA194",
    "tensor-type-left",
    "A CUDA tensor type stays, because it is not known what becomes of it.",
    "Making a tensor of it raises without CUDA.",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (MADE, CAST, TYPE_LEFT)

_PREFIX = "torch.cuda."


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    for call in list(context.index.all(cst.Call)):
        if isinstance(call, cst.Call) and method(call) == "type" and context.plan.free(call):
            given = value_of(call, "dtype", 0)
            name = cuda_type(context, given) if given is not None else ""
            if name:
                _cast(context, call, f"torch.{DTYPES[name]}")
    for node in list(context.index.all(cst.Attribute)):
        if isinstance(node, cst.Attribute) and cuda_type(context, node) and context.plan.free(node):
            _type(context, node)


def cuda_type(context: Context, node: cst.CSTNode) -> str:
    """``FloatTensor`` for ``torch.cuda.FloatTensor`` or the string of it, else the empty string."""
    path = string_value(node) or context.roles.path(node)
    name = path.removeprefix(_PREFIX)
    return name if path.startswith(_PREFIX) and name in DTYPES and not isinstance(node, cst.Name) else ""


def _cast(context: Context, call: cst.Call, dtype: str) -> None:
    base = receiver(call)
    assert base is not None
    if context.loops.needless(call):
        with context.plan.together(needs=[context.loops.of(call)]):
            change = context.plan.change(CAST, call, "the device loader brings the batch to the device")
        change.replace(call, f"{{0}}.to({dtype})", base)
        return
    change = context.plan.change(CAST, call, "the cast moves to the XLA device")
    device = device_here(context, call, change)
    change.replace(call, f"{{0}}.to({device}, {dtype})", base)


def _type(context: Context, node: cst.Attribute) -> None:
    parent = context.index.parent(node)
    if context.roles.dead(node) or any(context.plan.claims(a) for a in context.index.ancestors(node)):
        return
    if isinstance(parent, cst.Call) and parent.func is node and context.plan.free(parent):
        _made(context, node, parent)
    else:
        message = "this CUDA tensor type stays: it is not known what becomes of it"
        context.plan.report(TYPE_LEFT, node, message, "use a dtype and a device instead")


def _made(context: Context, node: cst.Attribute, call: cst.Call) -> None:
    """``torch.tensor`` of a literal, ``torch.empty`` of sizes; what may be either keeps its constructor."""
    change = context.plan.change(MADE, call, "the tensor is made for the XLA device")
    name = cuda_type(context, node)
    dtype = "" if name == "FloatTensor" else f", dtype=torch.{DTYPES[name]}"
    device = device_here(context, call, change)
    first = call.args[0] if call.args else None
    if first is not None and isinstance(first.value, (cst.List, cst.Tuple)) and len(call.args) == 1:
        whole = ", dtype=torch.float32" if not dtype and not _all_floats(first.value) else dtype
        change.replace(call, f"torch.tensor({{0}}{whole}, device={device})", first.value)
    elif len(call.args) > 1 or (first is not None and first.star):
        sizes = ", ".join(f"{arg.star}{{{i}}}" for i, arg in enumerate(call.args))
        change.replace(call, f"torch.empty({sizes}{dtype}, device={device})", *(a.value for a in call.args))
    else:
        change.replace(node, f"torch.{name}")
        change.wrap(call, f"{{0}}.to({device})")


def _all_floats(literal: cst.List | cst.Tuple) -> bool:
    return bool(literal.elements) and all(isinstance(e.value, cst.Float) for e in literal.elements)
