"""Wrappers of models (``DataParallel``, ``DistributedDataParallel``): what makes and what holds them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

import libcst as cst

from xla_transforms.roles import Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.catalog import DATA_PARALLEL, DISTRIBUTED_DATA_PARALLEL, MODEL_METHODS_SAME
from xla_transforms.scopes import Binding, How, parameters
from xla_transforms.tree import method, receiver, value_of

Path = tuple[int, ...]
Part = tuple[cst.CSTNode, Path]
"""An expression, and the indices that lead to a part of its value."""
_DEPTH = 4


class Wrappers:
    """The wrappers of some kind in one program, by the dotted paths that make them."""

    def __init__(self, roles: Roles, paths: Collection[str]) -> None:
        self.roles = roles
        self.paths = paths

    @cached_property
    def calls(self) -> list[cst.Call]:
        """Every call that makes one."""
        if not self.roles.program.mentions(*(path.rpartition(".")[2] for path in self.paths)):
            return []
        return [c for found in self.roles.program.calls.values() for c in found if self.makes(c)]

    def makes(self, node: cst.CSTNode) -> bool:
        """Whether an expression is a call that wraps a model."""
        if not isinstance(node, cst.Call) or value_of(node, "module", 0) is None:
            return False
        return self.roles.path(node.func) in self.paths

    def holds(self, node: cst.CSTNode | None) -> bool:
        """Whether a wrapped model may reach an expression: by variables, attributes, parameters, returns.

        Also from a branch that is not taken any more: what is said of the wrapper there goes with it.
        """
        seen: set[Part] = set()
        waiting: list[Part] = [(node, ())] if node is not None and self.calls else []
        while waiting:
            current = waiting.pop()
            if current in seen or len(current[1]) > _DEPTH:
                continue
            seen.add(current)
            if not current[1] and self.makes(current[0]):
                return True
            waiting += self._sources(*current)
        return False

    def _sources(self, node: cst.CSTNode, path: Path) -> Iterator[Part]:
        """The expressions whose value may be that of this one, or of the part of it at a path."""
        if isinstance(node, (cst.Tuple, cst.List)) and path and path[0] < len(node.elements):
            yield node.elements[path[0]].value, path[1:]
        elif isinstance(node, cst.Call):
            yield from ((value, path) for value in self._of_call(node))
        elif isinstance(node, cst.IfExp):
            yield from ((node.body, path), (node.orelse, path))
        elif isinstance(node, (cst.Name, cst.Attribute)):
            for binding in self._bindings(node):
                yield from ((value, (*own, *path)) for value, own in self._of_binding(binding))

    def _bindings(self, node: cst.Name | cst.Attribute) -> list[Binding]:
        if isinstance(node, cst.Attribute):
            return self._assigned(node)
        scope = self.roles.index(node).scope_of(node).owner(node.value)
        return scope.bindings[node.value] if scope is not None else []

    def _of_call(self, node: cst.Call) -> Iterator[cst.CSTNode]:
        """``DDP(model).train()``, and functions of the program that return one."""
        base = receiver(node)
        if base is not None and method(node) in MODEL_METHODS_SAME:
            yield base
        for item in self.roles.facts(node.func):
            exits = self.roles.exits(item.node) if isinstance(item.node, cst.FunctionDef) else []
            returned = (e.value for e in exits if isinstance(e, cst.Return))
            yield from (value for value in returned if value is not None)

    def _assigned(self, node: cst.Attribute) -> list[Binding]:
        """The assignments to an attribute of the same name, of the same class where it is one of ``self``."""
        found = self.roles.program.attributes.get(node.attr.value, [])
        owners = {f.node for f in self.roles.facts(node.value) if isinstance(f.node, cst.ClassDef)}
        if not owners:
            return list(found)
        return [b for b in found if self.roles.index(b.node).class_of(b.node) in owners]

    def _of_binding(self, binding: Binding) -> Iterator[Part]:
        if binding.how is How.PARAMETER and isinstance(binding.statement, cst.FunctionDef):
            yield from ((value, ()) for value in self._arguments(binding.statement, binding.node))
        elif binding.value is not None and (binding.how is How.ASSIGN or not binding.path):
            yield binding.value, binding.path

    def _arguments(self, function: cst.FunctionDef, param: cst.CSTNode) -> Iterator[cst.CSTNode]:
        position = next(i for i, p in enumerate(parameters(function)) if p is param)
        name = parameters(function)[position].name.value
        for site, taken in callers(self.roles, function):
            value = value_of(site, name, position - taken)
            if value is not None:
                yield value


def wrapped_models(roles: Roles) -> Wrappers:
    """The wrappers of a program that bring what a model is called with to its device."""
    paths = DATA_PARALLEL | DISTRIBUTED_DATA_PARALLEL
    return roles.remembered("wrapped models", lambda: Wrappers(roles, paths))
