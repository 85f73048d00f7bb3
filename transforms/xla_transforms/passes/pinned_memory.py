"""Pinned memory: page-locked host memory serves CUDA's copies alone.

Source: pytorch v2.9, ``torch/utils/data/dataloader.py`` (a warning and no effect without CUDA);
``Tensor.pin_memory`` raises without CUDA.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.roles import Kind
from xla_transforms.statements import bare, live_calls, migrating
from xla_transforms.tree import method, receiver

PINNED = Rule(
    "XLA271",
    "pinned-memory",
    "Pinning host memory goes away.",
    "tensor.pin_memory() raises without CUDA, and a DataLoader warns that it has no effect.",
)
RULES = (PINNED,)

_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")


def run(context: Context) -> None:
    if not migrating(context):
        return
    for call, path in live_calls(context):
        if path in _LOADERS:
            gone = [a for a in call.args if a.keyword is not None and _needless(context, a)]
            if gone:
                change = context.plan.change(PINNED, gone[0], "only CUDA copies from pinned memory")
                change.drop(call.args, gone)
        elif method(call) == "pin_memory" and not path:
            _unpin(context, call)


def _needless(context: Context, arg: cst.Arg) -> bool:
    name = arg.keyword.value if arg.keyword is not None else ""
    if name == "pin_memory_device":
        return True
    given = arg.value
    true = isinstance(given, cst.Name) and given.value == "True"
    return name == "pin_memory" and (true or context.roles.fold(given) is True)


def _unpin(context: Context, call: cst.Call) -> None:
    base = receiver(call)
    if base is None or Kind.INSTANCE in context.roles.kinds(base) or len(call.args) > 1:
        return
    change = context.plan.change(PINNED, call, "pin_memory() raises without CUDA")
    statement = bare(context, call)
    if statement is not None:
        change.remove(statement)
    else:
        change.replace(call, "{0}", base)
