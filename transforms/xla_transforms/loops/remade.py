"""Batches that are made anew with every part moved: ``[t.to(device) for t in batch]``."""

from __future__ import annotations

import libcst as cst

from xla_transforms.loops.moving import asks_for_tensor
from xla_transforms.roles import Roles
from xla_transforms.tree import COMPREHENSIONS, argument, method, receiver, same


def moved_whole(
    roles: Roles, call: cst.Call
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """``[t.to(device) for t in batch]`` and the batch; ``{k: v.to(device) ...}`` and the dictionary.

    Of comprehensions in comprehensions that only move, the outermost one.
    """
    if kept_arguments(call):
        return None
    moved = _checked(roles, call)
    outer = roles.index(call).parent(moved)
    if isinstance(outer, cst.Lambda):
        return _mapped(roles, outer, call)
    moved_from, found = receiver(call), None
    while moved_from is not None and isinstance(outer, COMPREHENSIONS):
        clause = outer.for_in
        if clause.ifs or clause.inner_for_in is not None:
            break
        if isinstance(outer, cst.DictComp):
            moved_from = _dictionary(outer, clause, moved_from)
        else:
            moved_from = clause.iter if same(moved_from, clause.target) else None
        found = (outer, moved_from) if moved_from is not None else found
        outer = roles.index(call).parent(outer)
    return found


def _checked(roles: Roles, call: cst.Call) -> cst.CSTNode:
    """A transfer with the choice around it: ``v.to(device) if torch.is_tensor(v) else v``."""
    choice = roles.index(call).parent(call)
    if not isinstance(choice, cst.IfExp) or not same(choice.orelse, receiver(call)):
        return call
    return choice if asks_for_tensor(roles, choice.test, choice.orelse) else call


def _dictionary(
    outer: cst.DictComp, clause: cst.CompFor, base: cst.BaseExpression
) -> cst.BaseExpression | None:
    """The dictionary that a comprehension makes anew: by its items, or by its keys."""
    pair = clause.target
    if method(clause.iter) == "items" and isinstance(pair, cst.Tuple) and len(pair.elements) == 2:
        alike = same(outer.key, pair.elements[0].value) and same(base, pair.elements[1].value)
        return receiver(clause.iter) if alike else None
    walked = receiver(clause.iter) if method(clause.iter) == "keys" else clause.iter
    key = base.slice[0].slice if isinstance(base, cst.Subscript) and len(base.slice) == 1 else None
    if not isinstance(base, cst.Subscript) or not isinstance(key, cst.Index) or not same(base.value, walked):
        return None
    return base.value if same(key.value, pair) and same(outer.key, pair) else None


def _mapped(
    roles: Roles, function: cst.Lambda, call: cst.Call
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """``x, y = map(lambda t: t.to(device), batch)`` and the batch."""
    arg = roles.index(call).parent(function)
    whole = roles.index(call).parent(arg) if arg is not None else None
    params = function.params.params
    if not isinstance(whole, cst.Call) or len(params) != 1 or not same(receiver(call), params[0].name):
        return None
    taken_apart = roles.index(call).parent(whole)
    unpacked = isinstance(taken_apart, cst.Assign) and isinstance(taken_apart.targets[0].target, cst.Tuple)
    if roles.path(whole.func) != "builtins.map" or len(whole.args) != 2:
        return None
    return (whole, whole.args[1].value) if unpacked or isinstance(taken_apart, cst.Arg) else None


def kept_arguments(call: cst.Call) -> list[cst.Arg]:
    """The arguments of a transfer that still mean something on the device: a dtype, a memory format."""
    if method(call) == "type":
        return list(call.args)
    if method(call) == "cuda":
        return []
    device = argument(call, "device", 0)
    dropped = {"non_blocking", "copy"}
    rest = [a for a in call.args if a is not device and not (a.keyword and a.keyword.value in dropped)]
    return [a for a in rest if a.keyword or not _is_flag(a)]


def _is_flag(arg: cst.Arg) -> bool:
    return isinstance(arg.value, cst.Name) and arg.value.value in ("True", "False")
