"""What a call of ``torch.save`` writes: tensors of the device, a whole module, nothing of the device."""

from __future__ import annotations

from enum import Enum

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.tree import has_star, value_of

_HOLDS = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOLEAN, Kind.ARGUMENTS, Kind.DATASET, Kind.NONE})


class Saved(Enum):
    """What a save writes, which decides whether ``xm.save`` can take its place."""

    TENSORS = "tensors"
    MODULE = "module"
    OPTIONS = "options"  # with arguments that xm.save does not take
    PLAIN = "plain"  # nothing that lives on the device
    UNSEEN = "unseen"


def saved_by(roles: Roles, call: cst.Call) -> Saved:
    """What a call of ``torch.save`` writes."""
    value, place = value_of(call, "obj", 0), value_of(call, "f", 1)
    if has_star(call):
        return Saved.TENSORS if _handed_on(roles, call) else Saved.UNSEEN
    if value is None or place is None:
        return Saved.UNSEEN
    if _is_model(roles, value) or any(_is_model(roles, entry) for entry in _entries(roles, value)):
        return Saved.MODULE
    if _without_tensors(roles, value):
        return Saved.PLAIN
    return Saved.OPTIONS if len(call.args) > 2 else Saved.TENSORS


def _handed_on(roles: Roles, call: cst.Call) -> bool:
    """``def save(*args, **kwargs): torch.save(*args, **kwargs)``, called with a value and a path."""
    function = roles.index(call).function_of(call)
    if function is None or not isinstance(function.params.star_arg, cst.Param):
        return False
    names = {"*": function.params.star_arg.name.value}
    if function.params.star_kwarg is not None:
        names["**"] = function.params.star_kwarg.name.value
    given = {arg.star: getattr(arg.value, "value", "") for arg in call.args}
    sites = [site for site, _ in callers(roles, function)]
    plain = all(len(s.args) == 2 and not any(a.keyword or a.star for a in s.args) for s in sites)
    return bool(sites) and plain and given.items() <= names.items() and not function.params.params


def _entries(roles: Roles, value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The values that a dictionary, a list or a tuple is seen to hold."""
    found: list[cst.BaseExpression] = []
    for fact in roles.facts(value):
        if isinstance(fact.node, (cst.Dict, cst.List, cst.Tuple)):
            found += [element.value for element in fact.node.elements]
        elif fact.kind is Kind.MAPPING and isinstance(fact.node, cst.Call):
            found += [arg.value for arg in fact.node.args]
    return found


def holds_tuple(roles: Roles, value: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether a tuple is seen in what is saved; Python's own random state is one, too, but is seen to."""
    if isinstance(value, cst.Tuple):
        return True
    return depth < 3 and any(holds_tuple(roles, entry, depth + 1) for entry in _entries(roles, value))


def _is_model(roles: Roles, value: cst.BaseExpression) -> bool:
    """Whether a value is a module, be it one that was loaded whole."""
    kinds = roles.kinds(value)
    if Kind.MODEL in kinds:
        return kinds <= {Kind.MODEL, Kind.STATE}
    if not isinstance(value, cst.Name):
        return False
    index = roles.index(value)
    scope = index.scope_of(value).owner(value.value)
    return {"parameters", "train"} <= index.uses.get((scope, value.value), set())


def _without_tensors(roles: Roles, value: cst.BaseExpression) -> bool:
    """Whether all that is saved is known to hold no tensor of the device."""
    facts = roles.facts(value)
    if facts and all(f.kind is Kind.TENSOR and f.detail == "host" for f in facts):
        return True
    kinds = {f.kind for f in facts}
    if kinds and kinds <= _HOLDS:
        return True
    entries = _entries(roles, value)
    literal = isinstance(value, (cst.List, cst.Tuple, cst.Dict)) and bool(entries)
    return literal and all(_without_tensors(roles, entry) for entry in entries)
