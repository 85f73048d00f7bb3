"""Collators of the program's own that pad the members of a batch to the longest of them.

Nothing is rewritten: which length is enough is known to the user alone.
Source: pytorch/xla#6413; SageMaker's guide (static shapes of the input); counted on 2.9.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.replicas.reach import reachable
from xla_transforms.roles import Kind
from xla_transforms.roles.classes import find_method
from xla_transforms.statements import feeds_device
from xla_transforms.tree import given, method, receiver, walk

OWN = Rule(
    "XLA908",
    "padding-collator",
    "A collator pads the members of a batch to the longest of them.",
    "Every new length is a new shape of the batch, and a new compilation (pytorch/xla#6413).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (OWN,)

_COLLATES = ("collate_fn", "data_collator")
_LARGEST = frozenset({"builtins.max", "numpy.max", "numpy.amax", "torch.max", "torch.amax"})
_ADVICE = "pad to a constant length and cut what is longer, or round up to a few lengths"


def run(context: Context) -> None:
    if not feeds_device(context):
        return
    for function in context.once(_collators):
        if context.roles.index(function) is context.index:
            for call in _longest(context, function):
                code = context.index.source.code(call)
                message = f"batches are padded to {code}: every new length is a new compilation"
                context.plan.report(OWN, call, message, _ADVICE)


def _collators(context: Context) -> list[cst.CSTNode]:
    """What the program makes batches with: functions and lambdas, with what they call."""
    roles = context.roles
    found: dict[cst.CSTNode, None] = {}
    for call in (c for calls in context.program.calls.values() for c in calls if not roles.dead(c)):
        for value in (arg.value for name in _COLLATES if (arg := given(call, name)) is not None):
            for function in _functions(context, value):
                found[function] = None
                found |= dict.fromkeys(reachable(roles, function.body))
    return list(found)


def _functions(context: Context, value: cst.BaseExpression) -> Iterator[cst.FunctionDef | cst.Lambda]:
    """The functions that an expression names; of an object its ``__call__``."""
    if isinstance(value, cst.Call) and context.roles.path(value.func) == "functools.partial" and value.args:
        value = value.args[0].value
    for item in context.roles.facts(value):
        node = item.node
        if item.kind is Kind.INSTANCE and isinstance(node, cst.ClassDef):
            node = find_method(context.roles, node, "__call__")
        if isinstance(node, (cst.FunctionDef, cst.Lambda)):
            yield node


def _longest(context: Context, function: cst.CSTNode) -> Iterator[cst.Call]:
    """Where a function asks for the greatest of its members' lengths."""
    for call in context.index.inside(function, cst.Call):
        assert isinstance(call, cst.Call)
        plain = [arg.value for arg in call.args if arg.keyword is None]
        base = receiver(call)
        if context.roles.path(call.func) in _LARGEST and len(plain) == 1:
            lengths = plain[0]
        elif method(call) == "max" and base is not None and not plain:
            lengths = base
        else:
            continue
        if _measures(context, lengths):
            yield call


def _measures(context: Context, node: cst.BaseExpression) -> bool:
    """Whether lengths or shapes are what an expression holds."""
    values = [node]
    if isinstance(node, cst.Name):
        values = [b.value for b in context.roles.bindings(node) if b.value is not None and not b.path]
    return any(_measure(context, part) for value in values for part in walk(value))


def _measure(context: Context, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Name):
        return context.roles.path(node) == "builtins.len"
    return isinstance(node, cst.Attribute) and node.attr.value in ("shape", "size")
