"""Moves: ``x.cuda()`` and ``x.to(0)`` become ``x.to(device)``.

Tensors and modules have no ``.xla()`` method; ``.to`` takes the XLA device and ``non_blocking``.
Source: pytorch/xla v2.9.0, the guide "PyTorch on XLA devices", section "Running models on XLA devices".
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.placing import device_here, is_move
from xla_transforms.plan import Planned
from xla_transforms.roles import Kind
from xla_transforms.tree import argument, has_star, method, receiver, value_of

MOVE = Rule(
    "XLA104",
    "cuda-move",
    "A move to the CUDA device becomes a move to the XLA device.",
    "x.cuda() raises without CUDA; on XLA tensors and modules move with .to(device).",
)
NUMBER = Rule(
    "XLA105",
    "device-number",
    "A device given by its number becomes the process's XLA device.",
    "A bare number means a CUDA device to torch; an XLA process sees only its own device.",
)
MOVE_LEFT = Rule(
    "XLA196",
    "cuda-move-left",
    "A move to the CUDA device stays, because it is not written as a plain call.",
    "x.cuda() raises without CUDA.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (MOVE, NUMBER, MOVE_LEFT)

_MOVED = ("torch.nn.", "torch.Tensor.")
"""Classes whose objects move."""


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    for call in list(context.index.all(cst.Call)):
        assert isinstance(call, cst.Call)
        if not context.plan.free(call) or context.roles.dead(call) or context.loops.needless(call):
            continue
        if is_move(context.roles, call) and not has_star(call):
            _move(context, call)
        elif not has_star(call):
            _by_number(context, call)
    for node in context.index.all(cst.Attribute):
        if isinstance(node, cst.Attribute) and node.attr.value == "cuda":
            _left(context, node)


def _left(context: Context, node: cst.Attribute) -> None:
    """Report ``x.cuda`` that is handed on, or called with arguments that are not in sight."""
    call = context.index.parent(node)
    called = isinstance(call, cst.Call) and call.func is node
    if called and isinstance(call, cst.Call) and not (has_star(call) and is_move(context.roles, call)):
        return
    path = context.roles.path(node)
    ours = not path or path.startswith((*_MOVED, "builtins."))
    looked_into = isinstance(call, cst.Attribute) or Kind.ARGUMENTS in context.roles.kinds(node.value)
    known = context.roles.kinds(node.value) & {Kind.MODEL, Kind.TENSOR} or path.startswith(_MOVED)
    if (called or (ours and known and not looked_into)) and context.plan.free(node):
        context.plan.report(
            MOVE_LEFT, node, "this move to the CUDA device stays", "write .to(device) instead"
        )


def _move(context: Context, call: cst.Call) -> None:
    base = receiver(call)
    assert base is not None
    change = context.plan.change(MOVE, call, "the move goes to the XLA device")
    parts: list[cst.CSTNode | str] = [base, _destination(context, call, change)]
    flag = value_of(call, "non_blocking", 1)
    template = "{0}.to({1})"
    if flag is not None:
        template = "{0}.to({1}, non_blocking={2})"
        parts.append(flag)
    change.replace(call, template, *parts)


def _destination(context: Context, call: cst.Call, change: Planned) -> cst.CSTNode | str:
    """The device that a move names itself, else the one at hand."""
    given = value_of(call, "device", 0)
    if given is not None and Kind.DEVICE in context.roles.kinds(given):
        return given
    if given is not None and _becomes_word(context, given):
        return given
    return device_here(context, call, change)


def _becomes_word(context: Context, given: cst.BaseExpression) -> bool:
    """Whether a variable holds a device's name, which the move renames where it is given."""
    kinds = context.roles.kinds(given)
    return (
        isinstance(given, (cst.Name, cst.Attribute)) and kinds <= {Kind.STRING, Kind.OPTION} and bool(kinds)
    )


def _by_number(context: Context, call: cst.Call) -> None:
    path = context.roles.path(call.func)
    if method(call) == "to" and not path.startswith("torch."):
        arg = argument(call, "device", 0)
    elif path.startswith("torch.") and not path.startswith(
        ("torch.device", "torch.cuda.", "torch.accelerator.")
    ):
        arg = argument(call, "device")
    else:
        return
    if arg is None or context.roles.kinds(arg.value) != {Kind.NUMBER} or _is_dtype_like(arg.value):
        return
    change = context.plan.change(NUMBER, arg.value, "the numbered GPU becomes the XLA device")
    change.replace(arg.value, device_here(context, call, change))


def _is_dtype_like(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value in ("dtype", "shape")
