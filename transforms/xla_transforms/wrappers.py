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
        seen: set[cst.CSTNode] = set()
        waiting = [node] if node is not None and self.calls else []
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            if self.makes(current):
                return True
            waiting += self._sources(current)
        return False

    def _sources(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The expressions whose value may be that of this one."""
        if isinstance(node, cst.Call):
            yield from self._of_call(node)
        elif isinstance(node, cst.IfExp):
            yield from (node.body, node.orelse)
        elif isinstance(node, cst.Name):
            scope = self.roles.index(node).scope_of(node).owner(node.value)
            for binding in scope.bindings[node.value] if scope is not None else ():
                yield from self._of_binding(binding)
        elif isinstance(node, cst.Attribute):
            for binding in self._assigned(node):
                yield from self._of_binding(binding)

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

    def _of_binding(self, binding: Binding) -> Iterator[cst.CSTNode]:
        if binding.how is How.PARAMETER and isinstance(binding.statement, cst.FunctionDef):
            yield from self._arguments(binding.statement, binding.node)
        elif binding.value is not None and not binding.path:
            yield binding.value

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
