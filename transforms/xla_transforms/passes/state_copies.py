"""A model that goes to the CPU to be saved, and back: what is saved is copied, the model stays where it is.

Its optimizer would go on with the parameters it was given, which are not those of the model that came back.
Source: pytorch/xla#1623; pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``save``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.statements import live_calls, migrating
from xla_transforms.tree import body_of, method, receiver, same, value_of

SAVED = Rule(
    "XLA414",
    "model-saved-in-place",
    "A model that goes to the CPU for a save and then back stays on the device.",
    "On XLA each move makes new parameters, and the optimizer would train the old ones; xm.save brings what "
    "it saves to the CPU by itself.",
)
RULES = (SAVED,)


def run(context: Context) -> None:
    if not migrating(context):
        return
    for call, path in live_calls(context):
        away = _away(value_of(call, "obj", 0)) if path == "torch.save" else None
        back = _back(context, call, away) if away is not None else None
        if away is not None and back is not None:
            _keep(context, away, back)


def _away(saved: cst.BaseExpression | None) -> cst.Call | None:
    """``net.cpu()`` of ``net.cpu().state_dict()``."""
    moved = receiver(saved) if isinstance(saved, cst.Call) and method(saved) == "state_dict" else None
    plain = isinstance(moved, cst.Call) and method(moved) == "cpu" and not moved.args
    return moved if plain and isinstance(moved, cst.Call) else None


def _back(context: Context, save: cst.Call, away: cst.Call) -> cst.Expr | None:
    """The statement right behind a save that brings the same model back to the device."""
    line = context.index.statement_of(save)
    block = context.index.parent(line) if line is not None else None
    behind = body_of(block) if block is not None else []
    position = next((i for i, statement in enumerate(behind) if statement is line), len(behind))
    for statement in behind[position + 1 : position + 2]:
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        call = small.value if isinstance(small, cst.Expr) else None
        if isinstance(small, cst.Expr) and isinstance(call, cst.Call) and _to_device(context, call):
            return small if _same_model(receiver(away), receiver(call)) else None
    return None


def _to_device(context: Context, call: cst.Call) -> bool:
    if method(call) == "cuda":
        return True
    target = value_of(call, "device", 0) if method(call) == "to" else None
    return target is not None and "cpu" not in context.roles.places(target)


def _same_model(away: cst.BaseExpression | None, back: cst.BaseExpression | None) -> bool:
    """Whether one is the other, or what the other wraps: ``net.module.cpu()`` and ``net.cuda()``."""
    if isinstance(away, cst.Attribute) and away.attr.value == "module" and same(away.value, back):
        return True
    return same(away, back)


def _keep(context: Context, away: cst.Call, back: cst.Expr) -> None:
    model = receiver(away)
    if model is None or context.plan.taken(away) or context.plan.taken(back):
        return
    change = context.plan.change(SAVED, away, "the model stays on the device while it is saved")
    change.replace(away, "{0}", model)
    change.remove(back)
