"""Parameters that are stepped by hand: a loop over them writes each with what it has of its gradient.

No optimizer steps there, before which replicas could reduce their gradients.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.loops.effects import Effects
from xla_transforms.loops.gradients import Gradients
from xla_transforms.replicas.reach import reachable
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.tree import method, receiver, walk

_GIVERS = ("parameters", "named_parameters")
_MODELS = frozenset({Kind.MODEL, Kind.INSTANCE, Kind.UNKNOWN, Kind.NAME})


def hand_updates(roles: Roles) -> list[cst.CSTNode]:
    """The writes of a program, in the order of its modules.

    Left out are those before which gradients are reduced, because another backward pass follows.
    """
    modules = roles.program.modules.values()
    loops = [loop for index in modules for loop in index.all(cst.For) if isinstance(loop, cst.For)]
    writes = [write for loop in loops if _over_parameters(roles, loop) for write in _writes(roles, loop)]
    reduced = [place.statement for place in Gradients(Effects(roles)).between()] if writes else []
    within = [f for statement in reduced for f in reachable(roles, statement)]
    return [write for write in writes if not _inside(roles, write, [*reduced, *within])]


def _inside(roles: Roles, node: cst.CSTNode, parts: list[cst.CSTNode]) -> bool:
    """Whether a node runs as a part of one of these pieces of code, and nowhere else."""
    index = roles.index(node)
    own = (p for p in parts if roles.index(p) is index and not isinstance(p, cst.FunctionDef))
    if any(index.within(node, part) for part in own):
        return True
    function = index.function_of(node)
    if function is None or function not in parts:
        return False
    with roles.guarded(("reduced", function)) as free:
        sites = [site for site, _ in callers(roles, function)] if free else []
        return bool(sites) and all(_inside(roles, site, parts) for site in sites)


def _over_parameters(roles: Roles, loop: cst.For) -> bool:
    calls = [node for node in walk(loop.iter) if isinstance(node, cst.Call)]
    if any(method(call) in _GIVERS and roles.kinds(receiver(call)) <= _MODELS for call in calls):
        return True
    return roles.is_a(loop.iter, Kind.PARAMETERS)


def _writes(roles: Roles, loop: cst.For) -> Iterator[cst.CSTNode]:
    names = {node.value for node in walk(loop.target) if isinstance(node, cst.Name)}
    known: set[str] = set()  # names for what was made of a gradient
    for node in walk(loop.body):
        if isinstance(node, cst.Assign) and _has_gradient(node.value, names, known):
            targets = [target.target for target in node.targets]
            known |= {target.value for target in targets if isinstance(target, cst.Name)} - names
            yield from (node for target in targets if _is_weight(target, names) and not roles.dead(node))
        elif isinstance(node, cst.AugAssign) and _is_weight(node.target, names):
            if _has_gradient(node.value, names, known) and not roles.dead(node):
                yield node
        elif isinstance(node, cst.Call) and _steps(node, names, known) and not roles.dead(node):
            yield node


def _steps(call: cst.Call, names: set[str], known: set[str]) -> bool:
    """Whether a call writes a weight in place: ``p.data.add_(p.grad, alpha=-lr)``."""
    name, base = method(call), receiver(call)
    in_place = name.endswith("_") and not name.endswith("__")
    given = any(_has_gradient(arg.value, names, known) for arg in call.args)
    return in_place and given and base is not None and _is_weight(base, names)


def _is_weight(node: cst.BaseExpression, names: set[str]) -> bool:
    """``p``, ``p.data``, or what an in-place method of one gives."""
    if isinstance(node, cst.Call):
        base = receiver(node)
        return method(node).endswith("_") and base is not None and _is_weight(base, names)
    if isinstance(node, cst.Attribute) and node.attr.value == "data":
        node = node.value
    return isinstance(node, cst.Name) and node.value in names


def _has_gradient(value: cst.BaseExpression, names: set[str], known: set[str]) -> bool:
    for node in walk(value):
        if isinstance(node, cst.Name) and node.value in known:
            return True
        if isinstance(node, cst.Attribute) and node.attr.value == "grad" and _is_weight(node.value, names):
            return True
    return False

