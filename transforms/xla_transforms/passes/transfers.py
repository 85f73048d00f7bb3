"""Transfers that a device loader makes needless: ``x, y = x.to(device), y.to(device)`` goes away.

An ``MpDeviceLoader`` hands out batches that are on the device already.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.loops.remade import kept_arguments, moved_whole
from xla_transforms.plan import Planned
from xla_transforms.roles.types import DTYPES, cast_to
from xla_transforms.tree import method, receiver, same

NEEDLESS = Rule(
    "XLA502",
    "needless-transfer",
    "A transfer of a batch that a device loader already brought to the device goes away.",
    "MpDeviceLoader moves every tensor of a batch (pytorch/xla v2.9.0, parallel_loader.py).",
)
KEPT = Rule(
    "XLA504",
    "cast-on-device",
    "A cast to a tensor type of the CPU becomes a cast to its dtype where a device loader brings the batch.",
    "x.type(torch.LongTensor) moves an XLA tensor to the CPU (pytorch, Tensor.type).",
)
RULES = (NEEDLESS, KEPT)


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for loop in context.loops.all:
        if loop.wrapped:
            moves = {move.transfer: move.statement for move in loop.batches.in_place if move.key is None}
            calls = context.loops.own_transfers(loop)
            with context.plan.together(needs=[loop]):
                for call in calls:
                    if not context.plan.taken(call) and method(call) != "type":
                        _take_out(context, call, calls, moves.get(call))
                for call in loop.batches.casts:
                    _cast(context, call)


def _cast(context: Context, call: cst.Call) -> None:
    """``x.type(torch.LongTensor)`` of a batch that is on the device already."""
    base, cast = receiver(call), cast_to(context.roles, call)
    if base is not None and cast is not None and context.plan.free(call):
        change = context.plan.change(KEPT, call, "the cast stays on the device")
        change.replace(call, f"{{0}}.to({change.use('torch')}.{DTYPES[cast[1]]})", base)


def _take_out(
    context: Context, call: cst.Call, calls: list[cst.Call], around: cst.CSTNode | None
) -> None:
    change = context.plan.change(NEEDLESS, call, "the device loader brings the batch to the device")
    if around is not None:
        change.remove(around)
        return
    statement = _only_transfers(context, call, calls)
    if statement is not None:
        change.remove(_with_guard(context, statement, calls))
        return
    whole = moved_whole(context.roles, call)
    if whole is not None:
        change.replace(whole[0], _copied(context, *whole), whole[1])
        return
    _shorten(change, call)


def _copied(context: Context, made: cst.BaseExpression, batch: cst.BaseExpression) -> str:
    """``list({0})`` where what is made anew gets a name of its own, and the batch is read again behind it."""
    copy = {cst.ListComp: "list({0})", cst.DictComp: "dict({0})"}.get(type(made), "{0}")
    if not isinstance(batch, cst.Name) or not isinstance(context.index.parent(made), cst.Assign):
        return "{0}"
    index, bindings = context.index, context.roles.bindings(batch)
    end = index.source.offsets(made)[1]
    reads = index.named_of(index.scope_of(made).owner(batch.value), batch.value)
    later = (node for node in reads if index.source.offsets(node)[0] > end)
    return copy if any(context.roles.bindings(node) == bindings for node in later) else "{0}"


def _only_transfers(
    context: Context, call: cst.Call, calls: list[cst.Call]
) -> cst.Assign | None:
    """The statement around a call if all it does is to move names onto themselves."""
    assign = next((a for a in context.index.ancestors(call) if isinstance(a, cst.Assign)), None)
    if assign is None or len(assign.targets) != 1:
        return None
    pairs = _pairs(assign.targets[0].target, assign.value)
    return assign if pairs and all(_onto_itself(context, t, v, calls) for t, v in pairs) else None


def _pairs(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    if not isinstance(target, cst.Tuple) or not isinstance(value, cst.Tuple):
        return [(target, value)]
    if len(value.elements) != len(target.elements):
        return []
    return [(t.value, v.value) for t, v in zip(target.elements, value.elements, strict=True)]


def _onto_itself(
    context: Context, target: cst.BaseExpression, value: cst.BaseExpression, calls: list[cst.Call]
) -> bool:
    if value in calls and isinstance(value, cst.Call):
        return same(target, receiver(value)) and not kept_arguments(value)
    for call in calls:
        whole = moved_whole(context.roles, call)
        if whole is not None and whole[0] is value:
            return same(_items(target), _items(whole[1]))
    return same(target, value)


def _items(node: cst.BaseExpression) -> object:
    """The elements of a tuple or list: ``x, y = [x, y]`` changes nothing."""
    return node.elements if isinstance(node, (cst.Tuple, cst.List)) else node


def _with_guard(
    context: Context, statement: cst.Assign, calls: list[cst.Call]
) -> cst.CSTNode:
    """The ``if use_cuda:`` around a statement, where it guards nothing but needless transfers."""
    line = context.index.parent(statement)
    block = context.index.parent(line) if line is not None else None
    guard = context.index.parent(block) if block is not None else None
    if not isinstance(guard, cst.If) or guard.orelse is not None:
        return statement
    if not isinstance(block, cst.IndentedBlock) or isinstance(context.index.parent(guard), cst.If):
        return statement
    smalls = [s for item in block.body for s in getattr(item, "body", [item])]
    for small in smalls:
        inner = next((c for c in calls if context.index.within(c, small)), None)
        if inner is None or _only_transfers(context, inner, calls) is not small:
            return statement
    return guard if len(smalls) == 1 or not any(context.plan.taken(s) for s in smalls) else statement


def _shorten(change: Planned, call: cst.Call) -> None:
    base, rest = receiver(call), kept_arguments(call)
    assert base is not None
    if not rest:
        change.replace(call, "{0}", base)
        return
    texts = [f"{a.keyword.value}={{{i}}}" if a.keyword else f"{{{i}}}" for i, a in enumerate(rest, 1)]
    change.replace(call, "{0}.to(" + ", ".join(texts) + ")", base, *(a.value for a in rest))
