"""A model that goes to the CPU to be saved, and back: what is saved is copied, the model stays where it is.

Its optimizer would go on with the parameters it was given, which are not those of the model that came back.
Source: pytorch/xla#1623; pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``save``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.models import moved_by, outermost, to_device, to_host
from xla_transforms.replicas.reach import reachable
from xla_transforms.roles import Kind
from xla_transforms.statements import live_calls, migrating, path_of
from xla_transforms.tree import body_of, method, receiver, same, value_of, walk

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
        if path == "torch.save":
            away = _copied(value_of(call, "obj", 0))
            back = _back(context, away, _behind(context, call)[:1]) if away is not None else None
        else:
            away = call if to_host(context.roles, call) and _is_statement(context, call) else None
            back = _after_saves(context, away) if away is not None else None
        if away is not None and back is not None:
            _keep(context, away, back)


def _copied(saved: cst.BaseExpression | None) -> cst.Call | None:
    """``net.cpu()`` of ``net.cpu().state_dict()``."""
    moved = receiver(saved) if isinstance(saved, cst.Call) and method(saved) == "state_dict" else None
    plain = isinstance(moved, cst.Call) and method(moved) == "cpu" and not moved.args
    return moved if plain and isinstance(moved, cst.Call) else None


def _is_statement(context: Context, call: cst.Call) -> bool:
    """Whether a call on a model, and others on what it gives, are a whole statement."""
    small = context.index.parent(outermost(context.index, call))
    return isinstance(small, cst.Expr) and context.roles.kinds(moved_by(call)) == {Kind.MODEL}


def _behind(context: Context, node: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """The statements behind a node's in their block."""
    line = context.index.statement_of(node)
    block = context.index.parent(line) if line is not None else None
    body = body_of(block) if block is not None else []
    return body[next((i for i, s in enumerate(body) if s is line), len(body)) + 1 :]


def _after_saves(context: Context, away: cst.Call) -> cst.Call | None:
    """What brings a model back behind statements that save it, and else have nothing to do with it."""
    saved = False
    for statement in _behind(context, away):
        back = _back(context, away, [statement])
        if back is not None:
            return back if saved else None
        named = [n for n in walk(statement) if same(n, moved_by(away))]
        if not all(_in_save(context, n) for n in named) or reachable(context.roles, statement):
            return None
        saved = saved or bool(named)
    return None


def _in_save(context: Context, model: cst.CSTNode) -> bool:
    """Whether a model is named to save its state: ``torch.save({"net": net.state_dict()}, path)``."""
    attribute = context.index.parent(model)
    call = context.index.parent(attribute) if isinstance(attribute, cst.Attribute) else None
    if not isinstance(call, cst.Call) or method(call) != "state_dict":
        return False
    calls = (a for a in context.index.ancestors(call) if isinstance(a, cst.Call))
    return any(path_of(context, outer.func) == "torch.save" for outer in calls)


def _back(context: Context, away: cst.Call, statements: Sequence[cst.CSTNode]) -> cst.Call | None:
    """The call in one of some statements that brings the same model back to the device."""
    for statement in statements:
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        for call in _calls_in_chain(small.value) if isinstance(small, cst.Expr) else ():
            if to_device(context.roles, call):
                return call if _same_model(moved_by(away), moved_by(call)) else None
    return None


def _calls_in_chain(node: cst.BaseExpression | None) -> Iterator[cst.Call]:
    while isinstance(node, cst.Call):
        yield node
        node = receiver(node)


def _same_model(away: cst.BaseExpression | None, back: cst.BaseExpression | None) -> bool:
    """Whether one is the other, or what the other wraps: ``net.module.cpu()`` and ``net.cuda()``."""
    if isinstance(away, cst.Attribute) and away.attr.value == "module" and same(away.value, back):
        return True
    return same(away, back)


def _keep(context: Context, away: cst.Call, back: cst.Call) -> None:
    if context.plan.taken(away) or context.plan.taken(back):
        return
    change = context.plan.change(SAVED, away, "the model stays on the device while it is saved")
    for call in (away, back):
        statement, inner = context.index.parent(call), receiver(call)
        if isinstance(statement, cst.Expr) and not isinstance(inner, cst.Call):
            change.remove(statement)
        elif inner is not None:
            change.replace(call, "{0}", inner)
