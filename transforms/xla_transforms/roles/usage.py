"""Evidence from use: what is asserted of a value whose origin is not known, and what is done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles.asserted import asserted
from xla_transforms.roles.facts import NOTHING, Facts, Kind, fact

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

# What must all be used on a value before it is taken for the kind.
_EVIDENCE: tuple[tuple[frozenset[str], Kind, str], ...] = (
    (frozenset({"backward"}), Kind.TENSOR, "device"),
    (frozenset({"zero_grad", "step"}), Kind.OPTIMIZER, ""),
    (frozenset({"param_groups"}), Kind.OPTIMIZER, ""),
    (frozenset({"unscale_"}), Kind.SCALER, ""),
    (frozenset({"scale", "update", "step"}), Kind.SCALER, ""),
    (frozenset({"parameters"}), Kind.MODEL, ""),
    (frozenset({"named_parameters"}), Kind.MODEL, ""),
    (frozenset({"eval", "state_dict"}), Kind.MODEL, ""),
    (frozenset({"train", "eval"}), Kind.MODEL, ""),
)


def evidence(roles: Roles, node: cst.CSTNode) -> Facts:
    """The kind that the attributes used on a name (in its scope) or on ``self.x`` (in its module) show."""
    if isinstance(node, cst.Name) and (sure := asserted(roles, node)):
        return sure
    key = _key(roles, node)
    if key is None:
        return NOTHING
    used = roles.index(node).uses.get(key, set())
    for wanted, kind, detail in _EVIDENCE:
        if wanted <= used:
            return fact(kind, detail)
    return NOTHING


def _key(roles: Roles, node: cst.CSTNode) -> tuple[object, str] | None:
    index = roles.index(node)
    if isinstance(node, cst.Name):
        scope = index.scope_of(node).owner(node.value)
        return (scope, node.value) if scope is not None else None
    if isinstance(node, cst.Attribute) and getattr(node.value, "value", None) == "self":
        return (index.class_of(node), node.attr.value)
    return None
