"""Choice: statements that pick a CUDA device for all that follows.

An XLA process has one device of its own, so ``torch.cuda.set_device`` and ``with torch.cuda.device(i)``
have nothing to pick. A default device stays one: ``torch.set_default_device`` knows XLA.
Source: pytorch/xla v2.9.0, ``torch_xla/torch_xla.py``, ``device``; pytorch v2.9, ``set_default_device``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.branches import Branches
from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.statements import leave_with
from xla_transforms.tree import string_value, value_of

SET_DEVICE = Rule(
    "XLA106",
    "device-chosen",
    "Picking a CUDA device for what follows goes away.",
    "torch.cuda.set_device raises without CUDA; an XLA process sees only its own device.",
)
DEFAULT = Rule(
    "XLA107",
    "default-tensor-type",
    "A CUDA default tensor type becomes the XLA default device.",
    "set_default_tensor_type('torch.cuda.FloatTensor') succeeds without CUDA and breaks what follows.",
)
NOT_MOVED = Rule(
    "XLA193",
    "device-context-left",
    "A with statement picks a CUDA device and could not be taken away.",
    "Its block holds a string over several lines, which cannot be moved to the left.",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (SET_DEVICE, DEFAULT, NOT_MOVED)

_SETTERS = frozenset(
    {"torch.cuda.set_device", "torch.accelerator.set_device_index", "torch.accelerator.set_device_idx"}
)
_CONTEXTS = frozenset({"torch.cuda.device", "torch.cuda.device_of", "torch.accelerator.device_index"})
_DTYPES = {"HalfTensor": "float16", "DoubleTensor": "float64", "BFloat16Tensor": "bfloat16"}


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    for call in list(context.index.all(cst.Call)):
        assert isinstance(call, cst.Call)
        if context.plan.taken(call) or context.roles.dead(call):
            continue
        path = context.roles.path(call.func)
        if path in _SETTERS:
            _drop(context, call)
        elif path == "torch.set_default_tensor_type":
            _default(context, call)
    for statement in list(context.index.all(cst.With)):
        assert isinstance(statement, cst.With)
        _leave(context, statement)


def _drop(context: Context, call: cst.Call) -> None:
    statement = context.index.parent(call)
    if isinstance(statement, cst.Expr):
        change = context.plan.change(SET_DEVICE, call, "there is one device, and nothing to pick")
        change.remove(statement)


def _default(context: Context, call: cst.Call) -> None:
    given = value_of(call, "t", 0)
    name = string_value(given) or context.roles.path(given)
    if not name.startswith("torch.cuda."):
        return
    change = context.plan.change(DEFAULT, call, "new tensors are made on the XLA device")
    device = change.spell(context.target.device)
    dtype = _DTYPES.get(name.split(".")[-1])
    statement = context.index.statement_of(call)
    if dtype is not None and statement is not None:
        change.after(statement, f"torch.set_default_dtype(torch.{dtype})")
    change.replace(call, f"torch.set_default_device({device})")


def _leave(context: Context, statement: cst.With) -> None:
    """``with torch.cuda.device(i):`` around a block, alone or among other items."""
    ours = [item for item in statement.items if _picks(context, item)]
    if not ours or any(item.asname for item in ours):
        return
    message = "there is one device, and nothing to pick"
    if len(ours) == len(statement.items):
        change = context.plan.change(SET_DEVICE, statement, message)
        if not Branches(context).keep_block(change, statement, statement.body):
            message = "this with statement raises without CUDA, and the text in its block cannot be moved"
            context.plan.report(NOT_MOVED, statement, message, "take the statement away by hand")
        return
    leave_with(context, context.plan.change(SET_DEVICE, ours[0], message), *ours)


def _picks(context: Context, item: cst.WithItem) -> bool:
    call = item.item
    return isinstance(call, cst.Call) and context.roles.path(call.func) in _CONTEXTS
