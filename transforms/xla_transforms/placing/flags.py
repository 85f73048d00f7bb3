"""The flags that choose between the device and the CPU where a script has no device variable."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from xla_transforms.naming import is_word
from xla_transforms.placing.moves import is_move
from xla_transforms.placing.variables import Variables
from xla_transforms.tree import walk

_FLAG = re.compile(r"cuda|gpu|accel|device|cpu", re.IGNORECASE)


class Flags:
    """The ``if use_cuda:`` statements of one module."""

    def __init__(self, variables: Variables) -> None:
        self.variables = variables
        self.roles = variables.roles
        self.index = variables.index

    @cached_property
    def guards(self) -> list[tuple[cst.If, bool]]:
        """The statements whose other way leaves the work on the CPU, and in which way the device is."""
        moves = [c for c in self.roles.program.calls.get("cuda", ()) if self._is_move(c)]
        return list({g: None for c in moves if (g := self.guard_of(c)) is not None})

    def _is_move(self, call: cst.Call) -> bool:
        here = self.roles.index(call) is self.index
        return here and is_move(self.roles, call)

    def guard_of(self, node: cst.CSTNode) -> tuple[cst.If, bool] | None:
        """The ``if`` whose flag lets ``node`` run on the device only, and in which way of it it stands."""
        child = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, (cst.FunctionDef, cst.Lambda)):
                return None
            if isinstance(parent, cst.If) and child is not parent.test and self._chooses(parent, child):
                return parent, child is parent.body
            child = parent
        return None

    def _chooses(self, guard: cst.If, way: cst.CSTNode) -> bool:
        other = guard.orelse if way is guard.body else guard.body
        if self.roles.fold(guard.test) is not None or not is_flag(guard.test):
            return False
        return other is None or not any(_names_cuda(n) for n in walk(other))

    def flag_at(self, node: cst.CSTNode) -> str | None:
        """The text of the flag that chooses the device, where its names are visible at ``node``."""
        for guard, positive in self.guards:
            test = self._residual(guard.test)
            if test is not None and self._all_visible(test, node):
                text = self.index.source.code(test)
                simple = isinstance(test, (cst.Name, cst.Attribute))
                return text if positive else f"not {text}" if simple else f"not ({text})"
        return None

    def _residual(self, test: cst.BaseExpression) -> cst.BaseExpression | None:
        """The part of a condition that the move leaves open, if that is one piece of its text."""
        if isinstance(test, cst.BooleanOperation):
            for side, other in ((test.left, test.right), (test.right, test.left)):
                if self.roles.fold(side) is not None:
                    return self._residual(other)
        return test

    def _all_visible(self, test: cst.BaseExpression, node: cst.CSTNode) -> bool:
        for name in walk(test):
            if not isinstance(name, cst.Name) or self._is_attribute_name(name):
                continue
            owner = self.index.scope_of(name).owner(name.value)
            if owner is None or owner is not self.index.scope_of(node).owner(name.value):
                return False
            if not self.variables.bound_before(owner, name.value, node):
                return False
        return True

    def _is_attribute_name(self, name: cst.Name) -> bool:
        parent = self.index.parent(name)
        return isinstance(parent, cst.Attribute) and parent.attr is name


def is_flag(test: cst.BaseExpression) -> bool:
    """Whether a condition is the user's choice of a device: ``use_cuda``, ``args.gpu >= 0``."""
    compared = [n.operator for n in walk(test) if isinstance(n, cst.ComparisonTarget)]
    if any(isinstance(operator, (cst.Is, cst.IsNot)) for operator in compared):
        return False
    names = [n.value for n in walk(test) if isinstance(n, cst.Name)]
    return any(_FLAG.search(n) for n in names)


def _names_cuda(node: cst.CSTNode) -> bool:
    return is_word(node) or (isinstance(node, cst.Attribute) and node.attr.value == "cuda")
