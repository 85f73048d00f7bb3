"""What a loop takes its batches from: what it iterates over, or asks for the next one."""

from __future__ import annotations

import libcst as cst

from xla_transforms.mapping.reach import Reach
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.structure import loaders_behind

_COUNTS = frozenset({Kind.NUMBER, Kind.SEQUENCE, Kind.TENSOR, Kind.DATASET, Kind.STRING, Kind.MAPPING})


def sources(reach: Reach, loop: cst.For | cst.While) -> list[cst.BaseExpression]:
    """The loaders of a loop, and what may be one; none where the loop makes its batches itself."""
    if isinstance(loop, cst.For):
        loaders = loaders_behind(reach.roles, loop.iter)
        if loaders or not _counts(reach.roles, loop):
            return list(loaders) or [loop.iter]
    calls = (call for code in reach.everything(loop.body) for call in reach.calls(code))
    asked = (c.args[0].value for c in calls if c.args and reach.roles.path(c.func) == "builtins.next")
    return list(dict.fromkeys(source for node in asked for source in _drawn(reach.roles, node)))


def _drawn(roles: Roles, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The loaders behind an iterator; the iterator where nothing is known of it."""
    return loaders_behind(roles, node) or ([] if roles.kinds(node) else [node])


def _counts(roles: Roles, loop: cst.For) -> bool:
    """Whether a loop goes through numbers, or through things that are known to be no loader."""
    if isinstance(loop.target, (cst.Attribute, cst.Subscript)):  # for self.epoch in range(3)
        kinds = {f.kind for f in roles.element(loop.iter, ())}
        return bool(kinds) and kinds <= _COUNTS
    index = roles.index(loop)
    owner = index.scope_of(loop.body)
    bound = [b for found in owner.bindings.values() for b in found if b.statement is loop]
    kinds = {f.kind for b in bound if b.value is not None for f in roles.element(b.value, b.path)}
    return bool(kinds) and kinds <= _COUNTS
