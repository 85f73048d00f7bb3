"""Types: ``torch.cuda.FloatTensor`` and its kin, as constructors, as casts and by other names.

``torch.cuda.FloatTensor(x)`` becomes ``torch.FloatTensor(x).to(device)``, ``x.type(torch.cuda.LongTensor)``
becomes ``x.to(device, torch.int64)``. There are no tensor types for XLA: ``x.type()`` gives
``"torch.xla.FloatTensor"``, which names no attribute of torch.
Source: pytorch v2.9, "Tensor class reference" (legacy constructors); pytorch/xla v2.9.0.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.naming import reads
from xla_transforms.placing import device_here, several_devices
from xla_transforms.plan import Planned
from xla_transforms.roles.facts import Kind
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
    Severity.WARNING,
)
RULES = (MADE, CAST, TYPE_LEFT)

DTYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
    "BoolTensor": "bool",
}
_PREFIX = "torch.cuda."


def run(context: Context) -> None:
    if not context.uses_cuda or several_devices(context):
        return
    for call in list(context.index.all(cst.Call)):
        if isinstance(call, cst.Call) and method(call) == "type" and not context.plan.taken(call):
            given = value_of(call, "dtype", 0)
            name = cuda_type(context, given) if given is not None else ""
            if name:
                _cast(context, call, DTYPES[name])
    for node in list(context.index.all(cst.Attribute)):
        if isinstance(node, cst.Attribute) and cuda_type(context, node) and not context.plan.taken(node):
            _type(context, node)


def cuda_type(context: Context, node: cst.CSTNode) -> str:
    """``FloatTensor`` for ``torch.cuda.FloatTensor`` or the string of it, else the empty string."""
    path = string_value(node) or context.roles.path(node)
    name = path.removeprefix(_PREFIX)
    return name if path.startswith(_PREFIX) and name in DTYPES and not isinstance(node, cst.Name) else ""


def _cast(context: Context, call: cst.Call, dtype: str) -> None:
    base = receiver(call)
    assert base is not None
    change = context.plan.change(CAST, call, "the cast moves to the XLA device")
    device = device_here(context, call, change)
    change.replace(call, f"{{0}}.to({device}, {_torch(context, call)}.{dtype})", base)


def _torch(context: Context, node: cst.CSTNode) -> str:
    return "torch"


def _type(context: Context, node: cst.Attribute) -> None:
    if context.roles.dead(node):
        return
    parent = context.index.parent(node)
    if isinstance(parent, cst.Call) and parent.func is node:
        _made(context, node, parent)
        return
    alias = _alias(context, node)
    if alias is None:
        message = "it is not known what becomes of this tensor type"
        context.plan.report(TYPE_LEFT, node, message, "use a dtype and a device instead")
        return
    _renamed(context, node, alias)


def _made(context: Context, node: cst.Attribute, call: cst.Call) -> None:
    change = context.plan.change(MADE, call, "the tensor is made on the host and moved")
    _cpu_type(change, node)
    change.wrap(call, f"{{0}}.to({device_here(context, call, change)})")


def _cpu_type(change: Planned, node: cst.Attribute) -> None:
    """``torch.FloatTensor`` for ``torch.cuda.FloatTensor``, however torch is spelt."""
    if isinstance(node.value, cst.Attribute):
        change.replace(node.value, "{0}", node.value.value)
    else:
        change.replace(node.value, change.use("torch"))


def _alias(context: Context, node: cst.Attribute) -> cst.Name | None:
    """The name that a type, or the choice it is part of, is assigned to."""
    outer: cst.CSTNode | None = context.index.parent(node)
    while isinstance(outer, cst.IfExp):
        outer = context.index.parent(outer)
    if not isinstance(outer, cst.Assign) or len(outer.targets) != 1:
        return None
    target = outer.targets[0].target
    return target if isinstance(target, cst.Name) else None


def _renamed(context: Context, node: cst.Attribute, alias: cst.Name) -> None:
    """A type under another name: what is made of it or cast to it is moved where that happens."""
    change = context.plan.change(MADE, node, "the type is the host's; what is made of it is moved")
    _cpu_type(change, node)
    for read in reads(context.roles, alias, alias.value):
        parent = context.index.parent(read)
        call = context.index.parent(parent) if isinstance(parent, cst.Arg) else parent
        if not isinstance(call, cst.Call) or any(p.node is call and p.rule is MADE for p in context.plan.planned):
            continue
        made = call.func is read
        if not made and method(call) != "type":
            context.plan.report(TYPE_LEFT, read, "it is not known what becomes of this tensor type")
            continue
        move = context.plan.change(MADE, call, "the tensor is moved to the script's device")
        move.wrap(call, f"{{0}}.to({_choice(context, node, call, move)})")


def _choice(context: Context, node: cst.Attribute, call: cst.Call, change: Planned) -> str:
    """The device of a choice ``torch.cuda.FloatTensor if cuda else torch.FloatTensor``, made again."""
    found = context.placing.visible(call)
    if found is not None:
        return found.text
    device = device_here(context, call, change)
    parent = context.index.parent(node)
    if not isinstance(parent, cst.IfExp) or context.roles.fold(parent.test) is not None:
        return device
    test = context.index.source.code(parent.test)
    ways = (device, '"cpu"') if parent.body is node else ('"cpu"', device)
    return f"{ways[0]} if {test} else {ways[1]}"


_ = Kind
