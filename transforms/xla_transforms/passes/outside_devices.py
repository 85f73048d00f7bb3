"""Devices that a configuration names: a YAML or JSON file, a mapping from elsewhere. Only reported.

The value is not in the script, so nothing can be rewritten: who keeps the configuration has to name "xla".
Source: pytorch v2.9, ``torch.device``: "xla" is a device type of torch; "cuda" raises without CUDA.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles import Kind
from xla_transforms.scopes import How
from xla_transforms.tree import has_star, method, receiver, string_value, value_of

OUTSIDE = Rule(
    "XLA192",
    "device-from-outside",
    "The device's name comes from outside the script.",
    'Where a configuration says "cuda", it has to say "xla" from now on.',
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (OUTSIDE,)

_CONSTRUCTOR = "torch.device"
_GIVEN = (cst.Attribute, cst.Subscript, cst.BooleanOperation, cst.Call)


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    for call, path in context.reached:
        if path == _CONSTRUCTOR and context.plan.free(call) and not has_star(call):
            _report(context, call, _source(context, value_of(call, "type", 0) or value_of(call, "device", 0)))
        elif method(call) == "to" and context.roles.may_be(receiver(call), Kind.MODEL):
            source = _source(context, value_of(call, "device", 0))
            _report(context, source, source if _is_entry(source) else None)


def _report(context: Context, place: cst.CSTNode | None, source: cst.BaseExpression | None) -> None:
    if place is None or not isinstance(source, _GIVEN):
        return
    facts = context.roles.facts(source)
    if {f.kind for f in facts} <= {Kind.UNKNOWN, Kind.STRING} and any(f.kind is Kind.UNKNOWN for f in facts):
        message = f"{context.index.source.code(source)} is given by something outside the script"
        context.plan.report(OUTSIDE, place, message, 'let it name the device "xla" instead of "cuda"')


def _source(context: Context, node: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """What a variable that is assigned once was assigned; other expressions as they are."""
    for _ in range(4):
        if not isinstance(node, cst.Name):
            return node
        bindings = context.roles.bindings(node)
        plain = len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path
        node = bindings[0].value if plain and context.roles.index(bindings[0].node) is context.index else None
    return None


def _is_entry(node: cst.BaseExpression | None) -> bool:
    """``cfg["device"]`` and ``cfg.get("device")``: an attribute may be that of a tensor, where it is."""
    if isinstance(node, cst.Call):
        return method(node) == "get" and bool(node.args) and string_value(node.args[0].value) is not None
    first = node.slice[0].slice if isinstance(node, cst.Subscript) else None
    return isinstance(first, cst.Index) and string_value(first.value) is not None
