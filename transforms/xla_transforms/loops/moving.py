"""Statements that bring a batch to the device in place, each part of it or what it holds at one key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from xla_transforms.roles import Roles
from xla_transforms.tree import body_of, method, receiver, same

IsTransfer = Callable[[Roles, cst.CSTNode], bool]
_CHECKS = frozenset({"torch.is_tensor", "builtins.isinstance", "builtins.hasattr"})


@dataclass(frozen=True)
class InPlace:
    """A statement that moves all of a batch (``key`` is ``None``), or what it holds at one key."""

    statement: cst.CSTNode
    batch: cst.Name
    transfer: cst.Call
    key: cst.Subscript | None = None


def moved_loop(roles: Roles, loop: cst.CSTNode, is_transfer: IsTransfer) -> InPlace | None:
    """A loop that does nothing but move every part of a batch to the device."""
    body = body_of(loop)
    if not isinstance(loop, cst.For) or loop.orelse is not None or len(body) != 1:
        return None
    inner = body[0]
    if isinstance(inner, cst.If):
        if inner.orelse is not None or not asks_for_tensor(roles, inner.test) or len(body_of(inner)) != 1:
            return None
        inner = body_of(inner)[0]
    assign = _assigned(inner)
    batch, keys, values = _walked(roles, loop)
    if assign is None or batch is None or not isinstance(assign.value, cst.Call):
        return None
    place, moved = assign.targets[0].target, receiver(assign.value)
    at_key = _at_key(place, batch, keys)
    if not at_key or moved is None or not is_transfer(roles, assign.value):
        return None
    if not same(moved, place) and (values is None or not same(moved, values)):
        return None
    return InPlace(loop, batch, assign.value)


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


def asks_for_tensor(roles: Roles, test: cst.BaseExpression) -> bool:
    """Whether a condition only asks whether something is a tensor: what is none need not be moved."""
    return isinstance(test, cst.Call) and roles.path(test.func) in _CHECKS


def _root(value: cst.BaseExpression, place: cst.Subscript) -> cst.BaseExpression:
    while isinstance(value, (cst.Call, cst.Attribute)) and not same(value, place):
        inner = receiver(value) if isinstance(value, cst.Call) else value.value
        if inner is None:
            return value
        value = inner
    return value


def _assigned(statement: cst.CSTNode) -> cst.Assign | None:
    small = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
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
    path = roles.path(source.func) if isinstance(source, cst.Call) else ""
    if isinstance(source, cst.Call) and method(source) in ("keys", "items"):
        fits = pair is (method(source) == "items")
        return (_name(receiver(source)) if fits else None), first, second
    if isinstance(source, cst.Call) and len(source.args) == 1:
        inner = source.args[0].value
        if path == "builtins.enumerate" and pair:
            return _name(inner), first, second
        counted = path == "builtins.range" and isinstance(inner, cst.Call) and len(inner.args) == 1
        if counted and isinstance(inner, cst.Call) and roles.path(inner.func) == "builtins.len":
            return (_name(inner.args[0].value) if not pair else None), first, None
        return None, None, None
    return (_name(source) if not pair else None), first, None


def _bare(roles: Roles, node: cst.BaseExpression) -> cst.BaseExpression:
    """``batch`` for ``list(batch)``."""
    wraps = isinstance(node, cst.Call) and roles.path(node.func) in ("builtins.list", "builtins.tuple")
    return node.args[0].value if wraps and len(node.args) == 1 else node  # type: ignore[attr-defined]


def _name(node: cst.BaseExpression | None) -> cst.Name | None:
    return node if isinstance(node, cst.Name) else None


def _at_key(place: cst.BaseExpression, batch: cst.Name, key: cst.BaseExpression | None) -> bool:
    """Whether an expression is ``batch[key]``."""
    if not isinstance(place, cst.Subscript) or len(place.slice) != 1 or not same(place.value, batch):
        return False
    index = place.slice[0].slice
    return isinstance(index, cst.Index) and key is not None and same(index.value, key)
