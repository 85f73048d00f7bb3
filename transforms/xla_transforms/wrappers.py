"""Wrappers of models (``DataParallel``, ``DistributedDataParallel``): where they are made, what holds them."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

import libcst as cst

from xla_transforms.roles import Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.catalog import MODEL_METHODS_SAME
from xla_transforms.scopes import Binding, How, parameters
from xla_transforms.tree import method, receiver, value_of


class Wrappers:
    """The wrappers of some kind in one program, by the dotted paths that make them."""

    def __init__(self, roles: Roles, paths: Collection[str]) -> None:
        self.roles = roles
        self.paths = paths
        self._held: dict[cst.CSTNode, bool] = {}

    @cached_property
    def calls(self) -> list[cst.Call]:
        """Every call that makes one."""
        if not self.roles.program.mentions(*{path.rpartition(".")[2] for path in self.paths}):
            return []
        return [c for found in self.roles.program.calls.values() for c in found if self.makes(c)]

    def makes(self, node: cst.CSTNode) -> bool:
        """Whether an expression is a call that wraps a model."""
        if not isinstance(node, cst.Call) or value_of(node, "module", 0) is None:
            return False
        return self.roles.path(node.func) in self.paths

    def holds(self, node: cst.CSTNode | None) -> bool:
        """Whether an expression may be a wrapped model: through variables, attributes, parameters, returns."""
        if node is None or not self.calls:
            return False
        if node not in self._held:
            with self.roles.guarded(("wrapped", node)) as free:
                if not free:
                    return False
                self._held[node] = self._holds(node)
        return self._held[node]

    def _holds(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Call):
            return self.makes(node) or self._through_call(node)
        if isinstance(node, cst.IfExp):
            return self.holds(node.body) or self.holds(node.orelse)
        if isinstance(node, cst.Name):
            return any(self._bound(binding) for binding in self.roles.bindings(node))
        if isinstance(node, cst.Attribute):
            return any(self._bound(binding) for binding in self._assigned(node))
        return False

    def _through_call(self, node: cst.Call) -> bool:
        """``DDP(model).train()``, and functions of the program that return one."""
        if method(node) in MODEL_METHODS_SAME and self.holds(receiver(node)):
            return True
        functions = [f.node for f in self.roles.facts(node.func) if isinstance(f.node, cst.FunctionDef)]
        returned = [exit_.value for f in functions for exit_ in self.roles.exits(f)]
        return any(isinstance(value, cst.BaseExpression) and self.holds(value) for value in returned)

    def _assigned(self, node: cst.Attribute) -> list[Binding]:
        """The assignments to an attribute of the same name, of the same class where it is one of ``self``."""
        found = self.roles.program.attributes.get(node.attr.value, [])
        owners = {f.node for f in self.roles.facts(node.value) if isinstance(f.node, cst.ClassDef)}
        if not owners:
            return list(found)
        return [b for b in found if self.roles.index(b.node).class_of(b.node) in owners]

    def _bound(self, binding: Binding) -> bool:
        if binding.how is How.PARAMETER and isinstance(binding.statement, cst.FunctionDef):
            return any(self.holds(value) for value in self._arguments(binding))
        return binding.value is not None and not binding.path and self.holds(binding.value)

    def _arguments(self, binding: Binding) -> list[cst.BaseExpression]:
        function, param = binding.statement, binding.node
        assert isinstance(function, cst.FunctionDef) and isinstance(param, cst.Param)
        position = next(i for i, p in enumerate(parameters(function)) if p is param)
        sites = callers(self.roles, function)
        given = [value_of(site, param.name.value, position - taken) for site, taken in sites]
        return [value for value in given if value is not None]
