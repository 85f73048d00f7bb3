"""Files that each process writes for itself: the rank is a part of their path, or they have none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles.calls import sites
from xla_transforms.roles.ranks import PLACES
from xla_transforms.scopes import Binding, How, parameters
from xla_transforms.tree import value_of, walk

if TYPE_CHECKING:
    from xla_transforms.replicas import Replicas

_UNSHARED = ("io.BytesIO", "tempfile.")


class OwnFiles:
    """Answers it for the paths of one program."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas, self.roles = replicas, replicas.roles

    def named(self, path: cst.CSTNode) -> bool:
        """Whether the rank of a process is a part of a path, in sight; or it is one of a temporary file."""
        return self._named(path, set())

    def _named(self, path: cst.CSTNode, seen: set[int]) -> bool:
        if id(path) in seen:
            return False
        seen.add(id(path))
        for node in walk(path):
            if not isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
                continue
            if self.replicas.number(node) in PLACES or self._unshared(node):
                return True
            if any(self._named(value, seen) for value in self._values(node)):
                return True
        return False

    def _unshared(self, node: cst.CSTNode) -> bool:
        """Whether a call makes a file that no other process knows."""
        return isinstance(node, cst.Call) and self.roles.path(node.func).startswith(_UNSHARED)

    def _values(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """What is given to a variable, an attribute or a parameter."""
        if isinstance(node, cst.Attribute) and not self.roles.path(node):
            bindings = list(self.roles.program.attributes.get(node.attr.value, ()))
        else:
            bindings = list(self.roles.bindings(node)) if isinstance(node, cst.Name) else []
        for binding in bindings:
            if binding.how is How.PARAMETER:
                yield from self._given(binding)
            elif binding.how in (How.ASSIGN, How.AUGMENT, How.ENTER) and binding.piece is not None:
                yield binding.piece

    def _given(self, binding: Binding) -> Iterator[cst.CSTNode]:
        function = binding.statement
        if not isinstance(function, cst.FunctionDef):
            return
        position = next((i for i, p in enumerate(parameters(function)) if p is binding.node), None)
        if position is None:
            return
        name = parameters(function)[position].name.value
        values = (value_of(site, name, position - taken) for site, taken in sites(self.roles, function))
        yield from (value for value in values if value is not None)
