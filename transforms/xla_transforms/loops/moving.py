"""Statements that bring a batch to the device in place, each part of it or what it holds at one key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from xla_transforms.roles import Roles
from xla_transforms.tree import body_of, method, receiver, same, string_value

IsTransfer = Callable[[Roles, cst.CSTNode], bool]


@dataclass(frozen=True)
class InPlace:
    """A statement that moves all of a batch (``key`` is ``None``), or what it holds at one key."""

    statement: cst.CSTNode
    batch: cst.Name
    transfer: cst.Call
    key: cst.Subscript | None = None


def moved_loop(roles: Roles, loop: cst.CSTNode, is_transfer: IsTransfer) -> InPlace | None:
    """A loop that does nothing but move every part of a batch to the device."""
    if not isinstance(loop, cst.For) or loop.orelse is not None:
        return None
    batch, keys, values = _walked(roles, loop)
    inner, test = _only(loop)
    assign = _assigned(inner) if inner is not None else None
    if assign is None or batch is None or not isinstance(assign.value, cst.Call):
        return None
    place, moved = assign.targets[0].target, receiver(assign.value)
    if moved is None or not _at_key(place, batch, keys) or not is_transfer(roles, assign.value):
        return None
    parts = [part for part in (place, values) if part is not None]
    if not any(same(moved, part) for part in parts):
        return None
    asked = test is None or any(asks_for_tensor(roles, test, part) for part in parts)
    return InPlace(loop, batch, assign.value) if asked else None


def _only(loop: cst.For) -> tuple[cst.CSTNode | None, cst.BaseExpression | None]:
    """The one statement that a loop does, and the condition under which it does it."""
    body = body_of(loop)
    guard = body[0] if len(body) == 1 else None
    if not isinstance(guard, cst.If):
        return guard, None
    body = body_of(guard)
    return (body[0] if len(body) == 1 and guard.orelse is None else None), guard.test


def moved_key(roles: Roles, statement: cst.CSTNode, is_transfer: IsTransfer) -> InPlace | None:
    """``batch["x"] = batch["x"].to(device)``."""
    assign = _assigned(statement)
    place = assign.targets[0].target if assign is not None else None
    if assign is None or not isinstance(place, cst.Subscript) or not isinstance(place.value, cst.Name):
        return None
    value = assign.value
    while isinstance(value, cst.Call) and method(value):
        if is_transfer(roles, value) and same(_root(value, place), place):
            return InPlace(statement, place.value, value, place)
        value = receiver(value) or value
    return None


def asks_for_tensor(roles: Roles, test: cst.BaseExpression, part: object) -> bool:
    """Whether a condition only asks whether a part of a batch is a tensor: what is none need not be moved."""
    if not isinstance(test, cst.Call) or not test.args or not same(test.args[0].value, part):
        return False
    path, second = roles.path(test.func), test.args[-1].value
    if path == "builtins.hasattr":
        return string_value(second) in ("to", "cuda")
    of_class = path == "builtins.isinstance" and roles.path(second) == "torch.Tensor"
    return of_class or path == "torch.is_tensor"


def _root(value: cst.BaseExpression, place: cst.Subscript) -> cst.BaseExpression:
    while isinstance(value, (cst.Call, cst.Attribute)) and not same(value, place):
        inner = receiver(value) if isinstance(value, cst.Call) else value.value
        if inner is None:
            return value
        value = inner
    return value


def _assigned(statement: cst.CSTNode) -> cst.Assign | None:
    small = statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,)
    first = small[0] if len(small) == 1 else None
    return first if isinstance(first, cst.Assign) and len(first.targets) == 1 else None


def _walked(
    roles: Roles, loop: cst.For
) -> tuple[cst.Name | None, cst.BaseExpression | None, cst.BaseExpression | None]:
    """The batch that a loop goes through, and its targets for the keys and the values."""
    source, target = _bare(roles, loop.iter), loop.target
    pair = isinstance(target, cst.Tuple) and len(target.elements) == 2
    first = target.elements[0].value if pair else target  # type: ignore[attr-defined]
    second = target.elements[1].value if pair else None  # type: ignore[attr-defined]
    walked = _pairs(roles, source) if pair else _keys(roles, source)
    return (walked if isinstance(walked, cst.Name) else None), first, second


def _pairs(roles: Roles, source: cst.BaseExpression) -> cst.BaseExpression | None:
    """``batch`` of ``batch.items()`` and ``enumerate(batch)``."""
    if method(source) == "items":
        return receiver(source)
    return _inside(roles, source, "builtins.enumerate")


def _keys(roles: Roles, source: cst.BaseExpression) -> cst.BaseExpression | None:
    """``batch`` of ``batch.keys()``, ``range(len(batch))`` and ``batch``."""
    if method(source) == "keys":
        return receiver(source)
    counted = _inside(roles, source, "builtins.range")
    return source if counted is None else _inside(roles, counted, "builtins.len")


def _inside(roles: Roles, node: cst.BaseExpression, path: str) -> cst.BaseExpression | None:
    """The only argument of a call of a function."""
    calls = isinstance(node, cst.Call) and roles.path(node.func) == path
    return node.args[0].value if calls and len(node.args) == 1 else None  # type: ignore[attr-defined]


def _bare(roles: Roles, node: cst.BaseExpression) -> cst.BaseExpression:
    """``batch`` for ``list(batch)``."""
    return _inside(roles, node, "builtins.list") or _inside(roles, node, "builtins.tuple") or node


def _at_key(place: cst.BaseExpression, batch: cst.Name, key: cst.BaseExpression | None) -> bool:
    """Whether an expression is ``batch[key]``."""
    if not isinstance(place, cst.Subscript) or len(place.slice) != 1 or not same(place.value, batch):
        return False
    index = place.slice[0].slice
    return isinstance(index, cst.Index) and key is not None and same(index.value, key)
