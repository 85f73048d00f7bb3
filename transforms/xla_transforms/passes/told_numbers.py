"""Ranks and numbers of processes that the user told a script: the runtime does not go by them.

A rank of which nothing says that a launcher gave it stays what it is, alike on all replicas; and a launch
starts a process for each device, whatever the option says that counted them.
Source: pytorch/xla v2.9.0, ``torch_xla/torch_xla.py``, ``launch``; ``torch_xla/runtime.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.replicas.collectives import short
from xla_transforms.roles import Kind
from xla_transforms.roles.fold import number_of
from xla_transforms.roles.ranks import PLACES, SIZES
from xla_transforms.tree import same, value_of

UNKNOWN = Rule(
    "XLA160",
    "rank-unknown",
    "What is given to the process group as rank or world size is not known to come from a launcher.",
    "Nothing tells it to processes that torch_xla.launch starts: each takes itself for the same one "
    "(pytorch/xla v2.9.0, runtime.py).",
    Severity.ERROR,
    Safety.DISPLAY,
)
COUNTED = Rule(
    "XLA169",
    "counted-otherwise",
    "What counted the processes is still read, and counts them no longer.",
    "torch_xla.launch starts one for each device (pytorch/xla v2.9.0, torch_xla.py).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (UNKNOWN, COUNTED)

_GIVEN = {"world_size": (3, SIZES), "rank": (4, PLACES)}
_OTHERWISE = {
    "world_size": "it would not follow the number of replicas",
    "rank": "it would be the same on all replicas",
}


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    for call, path in context.reached:
        if short(path) == "init_process_group":
            _joined(context, call)
    for count in _counts(context):
        if _told(context, count):
            for read in _reads(context, count):
                _report(context, read)


def _counts(context: Context) -> list[cst.BaseExpression]:
    """What tells how many processes to start."""
    counts = (launch.count for launch in context.replicas.starts.launches)
    return [count for count in dict.fromkeys(counts) if count is not None]


def _joined(context: Context, call: cst.Call) -> None:
    target = context.target
    for name, (position, kinds) in _GIVEN.items():
        value = value_of(call, name, position)
        if value is None or getattr(value, "value", "") == "None":
            continue
        if any(same(value, count) for count in _counts(context)) or context.replicas.counts.is_total(value):
            continue
        if number_of(context.roles, value) is None and context.replicas.number(value) not in kinds:
            text = context.index.source.code(value)
            ask = target.ordinal if name == "rank" else target.world_size
            message = f"it is not known where {name}={text} comes from: {_OTHERWISE[name]}"
            context.plan.report(UNKNOWN, value, message, f"write {ask.shown()} where it is made")


def _told(context: Context, count: cst.BaseExpression) -> bool:
    """Whether the user says how many processes there are: by an option, or a number in the script."""
    if isinstance(count, cst.Attribute):
        return Kind.ARGUMENTS in context.roles.kinds(count.value)
    return isinstance(count, cst.Name) and number_of(context.roles, count) is not None


def _reads(context: Context, count: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    index = context.index
    if isinstance(count, cst.Attribute):
        nodes: list[cst.BaseExpression] = list(index.attributed(count.attr.value))
        nodes = [n for n in nodes if isinstance(n, cst.Attribute) and _of_options(context, n, count)]
    elif context.roles.index(count) is index and isinstance(count, cst.Name):
        nodes = list(index.named_of(index.scope_of(count).owner(count.value), count.value))
    else:
        nodes = []
    return (n for n in nodes if _computes(context, n))


def _of_options(context: Context, node: cst.Attribute, count: cst.Attribute) -> bool:
    return same(node, count) or Kind.ARGUMENTS in context.roles.kinds(node.value)


def _computes(context: Context, node: cst.BaseExpression) -> bool:
    """Whether something is computed from a number, in what stays."""
    parent = context.index.parent(node)
    while isinstance(parent, cst.BinaryOperation):
        if context.plan.taken(parent):
            return False
        node, parent = parent, context.index.parent(parent)
    computed = isinstance(node, cst.BinaryOperation)
    counts = context.replicas.counts.only_counts(node) or context.replicas.number(node)
    return computed and not counts and context.plan.free(node) and not context.roles.dead(node)


def _report(context: Context, read: cst.BaseExpression) -> None:
    target, text = context.target, context.index.source.code(read)
    message = f"{text} no longer counts the processes: {target.starter} starts one for each device"
    asked = target.world_size.shown()
    advice = f"give it the number of devices, or compute with {asked} in what each process runs"
    context.plan.report(COUNTED, read, message, advice)
