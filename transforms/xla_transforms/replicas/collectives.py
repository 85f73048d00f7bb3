"""Calls of ``torch.distributed`` that move data: which of them PyTorch/XLA has a function for.

Source: pytorch v2.9, ``torch/distributed/distributed_c10d.py``: all but the object collectives change their
tensors in place, give a handle only with ``async_op=True``, and mean the group of all without ``group``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.tree import has_star, method, receiver, value_of

SUM, MEAN = "sum", "mean"
_KINDS = {
    "SUM": SUM, "AVG": MEAN, "PRODUCT": "mul", "MIN": "min", "MAX": "max", "BAND": "and", "BOR": "or",
}  # fmt: skip
# The parameters of each, in their order; those behind them say which group, or that it does not wait.
_PARAMETERS = {
    "all_reduce": ("tensor", "op"),
    "reduce": ("tensor", "dst", "op"),
    "broadcast": ("tensor", "src"),
    "all_gather": ("tensor_list", "tensor"),
    "all_gather_object": ("object_list", "obj"),
    "broadcast_object_list": ("object_list", "src"),
    "barrier": (),
    "monitored_barrier": (),
}
MEETINGS = frozenset(_PARAMETERS) | {
    "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single",
    "all_gather_into_tensor", "gather_object", "scatter_object_list",
}  # fmt: skip
"""Those that wait until all processes have called them."""
_OPERATIONS = ("ReduceOp", "reduce_op", "distributed_c10d.ReduceOp")
_GROUPS = {"torch.distributed.group.WORLD", "torch.distributed.GroupMember.WORLD"}
_IN_PLACE = re.compile(r"[a-z]\w*[a-z0-9]_")  # methods that change a tensor and give it back: div_
_HANDLED = ("async_op", "group_src", "group_dst")
OBJECTS = frozenset({"all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"})
"""They move Python objects, for which the XLA backend has no tensors."""


def short(path: str) -> str:
    """``get_rank`` for a dotted path of ``torch.distributed``, ``nn.all_gather`` for one with gradients."""
    for module in ("torch.distributed.nn.functional.", "torch.distributed.nn."):
        if path.startswith(module):
            return "nn." + path.removeprefix(module)
    for module in ("torch.distributed.distributed_c10d.", "torch.distributed."):
        if path.startswith(module):
            name = path.removeprefix(module)
            return name if "." not in name else ""
    return ""


@dataclass(frozen=True)
class Collective:
    """A collective that can be written anew: its name, its arguments, how it reduces."""

    name: str
    values: tuple[cst.BaseExpression, ...]
    kind: str = SUM


def collective(roles: Roles, call: cst.Call) -> Collective | None:
    """What a call asks of all processes; ``None`` where it is no such call, or one to be left."""
    name = short(roles.path(call.func))
    names = _PARAMETERS.get(name)
    if names is None or has_star(call) or not _of_all(roles, call, len(names)):
        return None
    if not isinstance(roles.index(call).parent(call), cst.Expr):
        return None
    given = {p: value_of(call, p, i) for i, p in enumerate(names)}
    kind, moved = _kind(roles, given.pop("op", None)), given.get(names[0]) if names else None
    if not kind or (names and not _in_place(roles, name, moved)):
        return None
    values = tuple(value for value in given.values() if value is not None)
    return Collective(name, values, kind)


def _of_all(roles: Roles, call: cst.Call, count: int) -> bool:
    """Whether all processes take part in a call, which waits until they did."""
    group = value_of(call, "group", count)
    everyone = group is None or getattr(group, "value", "") == "None" or roles.path(group) in _GROUPS
    given = (value_of(call, name) for name in _HANDLED)
    waits = all(value is None or getattr(value, "value", "") == "False" for value in given)
    return everyone and waits and len([a for a in call.args if a.keyword is None]) <= count + 1


def _kind(roles: Roles, op: cst.BaseExpression | None) -> str:
    if op is None:
        return SUM
    package, _, name = roles.path(op).rpartition(".")
    return _KINDS.get(name, "") if package.removeprefix("torch.distributed.") in _OPERATIONS else ""


def _in_place(roles: Roles, name: str, moved: cst.BaseExpression | None) -> bool:
    """Whether what a call changes has a name of its own: a part of a tensor may be a copy on XLA."""
    if moved is None:
        return False
    if name.endswith(("object", "object_list")) or name == "all_gather":
        return isinstance(moved, (cst.Name, cst.Attribute))
    while isinstance(moved, cst.Call) and _IN_PLACE.fullmatch(method(moved) or ""):
        moved = receiver(moved)
    return isinstance(moved, (cst.Name, cst.Attribute)) and not on_host(roles, moved)


def on_host(roles: Roles, tensor: cst.BaseExpression) -> bool:
    """Whether a tensor is known to be on the CPU, where the runtime reduces nothing."""
    return any(f.kind is Kind.TENSOR and f.detail == "host" for f in roles.facts(tensor))
