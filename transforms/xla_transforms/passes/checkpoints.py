"""Checkpoints: ``torch.save`` becomes ``xm.save`` where it saves tensors.

``xm.save`` writes CPU tensors, which every torch reads.
Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``save``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.roles import Kind
from xla_transforms.statements import live_calls, migrating
from xla_transforms.tree import has_star, value_of

SAVE = Rule(
    "XLA801",
    "save",
    "Tensors are saved through xm.save.",
    "It brings them to the CPU first, so that the file loads anywhere (pytorch/xla v2.9.0, xla_model.save).",
)
WHOLE = Rule(
    "XLA803",
    "whole-module-saved",
    "A whole module is saved; its parameters are written as XLA tensors.",
    "xm.save does not reach into modules: such a file loads only where torch_xla is installed.",
    Severity.WARNING,
)
FORMAT = Rule(
    "XLA804",
    "save-left",
    "A save with options that xm.save does not take is left.",
    "Its file holds XLA tensors: it loads only where torch_xla is installed, with map_location='cpu'.",
    Severity.WARNING,
)
TUPLES = Rule(
    "XLA806",
    "saved-tuples",
    "A tuple that is saved comes back as a list.",
    "xm.save rebuilds what it brings to the CPU: tuples become lists, ordered dictionaries plain ones.",
)
RULES = (SAVE, WHOLE, FORMAT, TUPLES)

_HOLDS = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOLEAN, Kind.ARGUMENTS, Kind.DATASET, Kind.NONE})


def run(context: Context) -> None:
    if not migrating(context):
        return
    for call, path in live_calls(context):
        if path == "torch.save":
            _save(context, call)


def _save(context: Context, call: cst.Call) -> None:
    value, place = value_of(call, "obj", 0), value_of(call, "f", 1)
    if value is None or place is None or has_star(call):
        return
    if _is_model(context, value) or any(_is_model(context, entry) for entry in _entries(context, value)):
        advice = "save model.state_dict() instead, and load it into a new model"
        context.plan.report(WHOLE, call, "a module's parameters are saved as they are", advice)
    elif not _without_tensors(context, value):
        if len(call.args) > 2:
            advice = "leave the options out and write xm.save"
            context.plan.report(FORMAT, call, "xm.save does not take these options", advice)
            return
        if _holds_tuple(context, value):
            advice = "compare and restore them as lists"
            context.plan.report(TUPLES, call, "its tuples are lists in the file", advice)
        change = context.plan.change(SAVE, call, "saves CPU tensors that load anywhere")
        save = change.spell(context.target.save)
        if any(arg.keyword for arg in call.args):
            change.replace(call, f"{save}({{0}}, {{1}})", value, place)
        else:
            change.replace(call.func, save)


def _entries(context: Context, value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The values that a dictionary, a list or a tuple is seen to hold."""
    found: list[cst.BaseExpression] = []
    for fact in context.roles.facts(value):
        if isinstance(fact.node, (cst.Dict, cst.List, cst.Tuple)):
            found += [element.value for element in fact.node.elements]
        elif fact.kind is Kind.MAPPING and isinstance(fact.node, cst.Call):
            found += [arg.value for arg in fact.node.args]
    return found


def _holds_tuple(context: Context, value: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether a tuple is seen in what is saved; Python's own random state is one, too, but is seen to."""
    if isinstance(value, cst.Tuple):
        return True
    return depth < 3 and any(_holds_tuple(context, entry, depth + 1) for entry in _entries(context, value))


def _is_model(context: Context, value: cst.BaseExpression) -> bool:
    """Whether a value is a module, be it one that was loaded whole."""
    kinds = context.roles.kinds(value)
    if Kind.MODEL in kinds:
        return kinds <= {Kind.MODEL, Kind.STATE}
    if not isinstance(value, cst.Name):
        return False
    scope = context.index.scope_of(value).owner(value.value)
    return {"parameters", "train"} <= context.index.uses.get((scope, value.value), set())


def _without_tensors(context: Context, value: cst.BaseExpression) -> bool:
    """Whether all that is saved is known to hold no tensor of the device."""
    facts = context.roles.facts(value)
    if facts and all(f.kind is Kind.TENSOR and f.detail == "host" for f in facts):
        return True
    kinds = {f.kind for f in facts}
    if kinds and kinds <= _HOLDS:
        return True
    entries = _entries(context, value)
    literal = isinstance(value, (cst.List, cst.Tuple, cst.Dict)) and bool(entries)
    return literal and all(_without_tensors(context, entry) for entry in entries)
