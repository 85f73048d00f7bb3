"""The code that every step runs: bodies of step loops, what they call, the methods of models."""

from __future__ import annotations

import libcst as cst

from xla_transforms.loops import Loops
from xla_transforms.loops.followed import Followed
from xla_transforms.roles import Kind
from xla_transforms.scopes import Binding, How
from xla_transforms.tree import walk

_RANDOM = ("numpy.random.", "random.")
_DEPTH = 6


class HotPath:
    """The statements of one module that run in every step, and what changes from step to step in them."""

    def __init__(self, loops: Loops) -> None:
        self.loops, self.roles, self.index = loops, loops.roles, loops.index
        self.roots = self.roles.remembered(("hot", self.index), self._followed)

    def _followed(self) -> list[cst.CSTNode]:
        functions = Followed.of(self.roles).functions
        run = [f for f in self.index.all(cst.FunctionDef) if f in functions and not _makes(f)]
        return [*(loop.node.body for loop in self.loops.all), *run]

    def nodes(self, kind: type[cst.CSTNode]) -> list[cst.CSTNode]:
        """The nodes of a type that every step runs, each once."""
        return self.roles.remembered(("hot", self.index, kind), lambda: self._nodes(kind))

    def _nodes(self, kind: type[cst.CSTNode]) -> list[cst.CSTNode]:
        found = dict.fromkeys(n for root in self.roots for n in self.index.inside(root, kind))
        return [node for node in found if not self.roles.dead(node)]

    def changes(self, node: cst.CSTNode, depth: int = 0) -> cst.Name | None:
        """The name in an expression whose Python value is another one in every step, if any."""
        for name in walk(node):
            if not isinstance(name, cst.Name) or not self._is_number(name):
                continue
            if any(self._changing(binding, depth) for binding in self.roles.bindings(name)):
                return name
        return None

    def _is_number(self, name: cst.Name) -> bool:
        parent = self.index.parent(name)
        if isinstance(parent, cst.Attribute):
            return False
        return not self.roles.kinds(name) & {Kind.TENSOR, Kind.MODEL, Kind.NAME, Kind.FUNCTION}

    def _changing(self, binding: Binding, depth: int) -> bool:
        if depth > _DEPTH or binding.value is None:
            return False
        if binding.how is How.ITERATE:
            counter = all(f.kind is Kind.NUMBER for f in self.roles.element(binding.value, binding.path))
            return counter and any(loop.node is binding.statement for loop in self.loops.all)
        if binding.how is How.AUGMENT:
            return self.loops.of(binding.statement) is not None
        if binding.how is not How.ASSIGN:
            return False
        calls = [n for n in walk(binding.value) if isinstance(n, cst.Call)]
        if any(self.roles.path(c.func).startswith(_RANDOM) for c in calls):
            return True
        return self.changes(binding.value, depth + 1) is not None


def _makes(function: cst.CSTNode) -> bool:
    return isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
