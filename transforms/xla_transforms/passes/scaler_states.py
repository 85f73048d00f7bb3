"""Reads of a gradient scaler's state: that of one which is switched off holds nothing.

``scaler.state_dict()["scale"]`` would raise. It gives 1.0 instead, as ``get_scale()`` of such a scaler does.
Source: pytorch v2.9, ``torch/amp/grad_scaler.py``: ``state_dict`` of a disabled scaler is empty.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.roles import Kind, Roles
from xla_transforms.scalers import groups
from xla_transforms.scopes import How
from xla_transforms.tree import method, receiver, string_key

READ = Rule(
    "XLA320",
    "scaler-state-read",
    "The scale that is read from a scaler's state is 1.0 where the scaler is switched off.",
    "The state of a scaler that is switched off is empty: the read would raise a KeyError.",
)
RULES = (READ,)

_MAX_DEPTH = 4


def run(context: Context) -> None:
    kept = any(not group.understood for group in groups(context))
    if not kept or context.target.has_grad_scaler or not context.program.mentions("scale"):
        return
    for node in context.index.all(cst.Subscript):
        assert isinstance(node, cst.Subscript)
        if string_key(node) == "scale" and _is_read(context, node) and _of_scaler(context.roles, node.value):
            change = context.plan.change(READ, node, "the state of a scaler that is switched off is empty")
            change.replace(node, "{0}.get({1}, 1.0)", node.value, node.slice[0])


def _is_read(context: Context, node: cst.Subscript) -> bool:
    written = isinstance(context.index.parent(node), (cst.AssignTarget, cst.AugAssign, cst.Del))
    return not written and context.plan.free(node)


def _of_scaler(roles: Roles, state: cst.CSTNode | None, depth: int = 0) -> bool:
    """Whether an expression may be what a scaler's ``state_dict()`` gives."""
    if isinstance(state, cst.Name) and depth < _MAX_DEPTH:
        found = [b.value for b in roles.bindings(state) if b.how is How.ASSIGN and not b.path]
        return any(_of_scaler(roles, value, depth + 1) for value in found)
    if not isinstance(state, cst.Call) or method(state) != "state_dict" or depth == _MAX_DEPTH:
        return False
    functions = [f.node for f in roles.facts(state.func) if isinstance(f.node, cst.FunctionDef)]
    if functions:
        exits = [value for f in functions for e in roles.exits(f) if (value := getattr(e, "value", None))]
        return any(_of_scaler(roles, value, depth + 1) for value in exits)
    kinds = roles.kinds(receiver(state))
    return not kinds or Kind.SCALER in kinds
