"""Devices that are given by their number alone: ``x.to(0)`` and ``torch.device(0)`` mean ``cuda:0``.

Asked before anything else is known of a program, so that a number is followed within its module only.
"""

from __future__ import annotations

import re

import libcst as cst

from xla_transforms.scopes import Binding, How, ModuleIndex, parameters
from xla_transforms.tree import argument, dotted, method, value_of

NUMBERED = re.compile(r"\b(?:to|device)\(\s*(?:device\s*=\s*)?\d|(?:device|gpu)\w*\s*=\s*\d")
"""What the text of a module has in which this may be."""


def numbers_cuda(index: ModuleIndex) -> bool:
    """Whether a module gives a device by its number alone."""
    for call in index.all(cst.Call) if NUMBERED.search(index.source.text) else ():
        if isinstance(call, cst.Call) and (_of_torch(index, call.func) or method(call) == "to"):
            first = method(call) == "to" or dotted(call.func).split(".")[:2][-1] == "device"
            given = value_of(call, "device", 0 if first else None)
            if given is not None and _is_number(index, given, set()):
                return True
    return False


def _of_torch(index: ModuleIndex, function: cst.BaseExpression) -> bool:
    """Whether a plain path starts at something that was imported from torch."""
    root = dotted(function).partition(".")[0]
    owner = index.scope_of(function).owner(root) if root else None
    bindings = owner.bindings[root] if owner is not None else ()
    return any(b.how is How.IMPORT and f"{b.name}.".startswith("torch.") for b in bindings)


def _is_number(index: ModuleIndex, node: cst.CSTNode | None, seen: set[int]) -> bool:
    """Whether an expression may be a number, as far as the module's own names and calls tell."""
    if isinstance(node, cst.Integer):
        return True
    if node is None or id(node) in seen:
        return False
    seen.add(id(node))
    return any(_is_number(index, value, seen) for value in _values(index, node))


def _values(index: ModuleIndex, node: cst.CSTNode) -> list[cst.CSTNode | None]:
    """What a name or an attribute of ``self`` may stand for."""
    if isinstance(node, cst.Name):
        owner = index.scope_of(node).owner(node.value)
        bindings = owner.bindings[node.value] if owner is not None else ()
        return [value for binding in bindings for value in _bound(index, binding)]
    if isinstance(node, cst.Attribute) and dotted(node.value) == "self":
        assigns = [index.parent(index.parent(n) or n) for n in index.attributed(node.attr.value)]
        return [assign.value for assign in assigns if isinstance(assign, cst.Assign)]
    return []


def _bound(index: ModuleIndex, binding: Binding) -> list[cst.CSTNode | None]:
    if binding.how is not How.PARAMETER or not isinstance(binding.statement, cst.FunctionDef):
        return [] if binding.path else [binding.value]
    assert isinstance(binding.node, cst.Param)
    return [binding.node.default, *_given(index, binding.statement, binding.node)]


def _given(index: ModuleIndex, function: cst.FunctionDef, param: cst.Param) -> list[cst.CSTNode | None]:
    """What calls of a function, or of a class that it makes the instances of, give for a parameter."""
    owner = index.class_of(function)
    made = function.name.value == "__init__" and owner is not None
    name = owner.name.value if made and owner is not None else function.name.value
    position = parameters(function).index(param) - (1 if owner is not None else 0)
    calls = [call for call in index.all(cst.Call) if isinstance(call, cst.Call)]
    own = [call for call in calls if name in (method(call), getattr(call.func, "value", ""))]
    found = [argument(call, param.name.value, position) for call in own]
    return [arg.value for arg in found if arg is not None]
