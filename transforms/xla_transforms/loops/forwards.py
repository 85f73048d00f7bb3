"""The forward passes of a program's models: what they run, and whether training runs them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.loops.effects import Effect, Effects
from xla_transforms.loops.followed import functions_of, methods_of_models
from xla_transforms.loops.reads import FETCHES, Reads
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.classes import buffer, is_self, role_of
from xla_transforms.scopes import How, ModuleIndex
from xla_transforms.tree import method, walk

_TRAINS = Effect.BACKWARD | Effect.STEP
_DEPTH = 4
_DESCRIBING = frozenset({"shape", "size", "ndim", "dim", "dtype", "device", "numel", "requires_grad"})
_AROUND = (cst.For, cst.While, cst.FunctionDef)


def functions_called(roles: Roles, function: cst.FunctionDef) -> Iterator[cst.FunctionDef]:
    """The functions of its own module that a function calls."""
    index = roles.index(function)
    for call in index.inside(function.body, cst.Call):
        if isinstance(call, cst.Call):
            yield from (f for f in functions_of(roles, call) if roles.index(f) is index)


def surely_read(reads: Reads, node: cst.CSTNode, depth: int = 0) -> bool:
    """Whether something in an expression is surely a tensor: what is computed, or fetched by its methods.

    Of a parameter nothing more is known than that tensors arrive in it, among other things perhaps.
    """
    for part in walk(node):
        if isinstance(part, cst.Call) and method(part) in FETCHES and reads.fetched(part) is not None:
            return True
        if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute) and reads.on_device(part):
            return True
        if isinstance(part, cst.Attribute) and _is_buffer(reads, part):
            return True
        if isinstance(part, cst.Name) and depth < _DEPTH and reads.on_device(part):
            assigned = (b.value for b in reads.roles.bindings(part) if b.how is How.ASSIGN)
            if any(v is not None and surely_read(reads, v, depth + 1) for v in assigned):
                return True
    return False


def _is_buffer(reads: Reads, node: cst.Attribute) -> bool:
    """Whether an attribute of the object itself is surely a tensor, and not only asked for its shape."""
    roles, index = reads.roles, reads.roles.index(node)
    outer, owner = index.parent(node), index.class_of(node)
    described = isinstance(outer, cst.Attribute) and outer.attr.value in _DESCRIBING
    if described or not is_self(roles, node.value) or not reads.on_device(node):
        return False
    return roles.kinds(node) <= {Kind.TENSOR, Kind.NONE} or (
        owner is not None and bool(buffer(roles, owner, node.attr.value))
    )


class Forwards:
    """Answers about the ``forward`` of models of a program."""

    def __init__(self, roles: Roles, effects: Effects) -> None:
        self.roles, self.effects = roles, effects

    def computing(self, index: ModuleIndex) -> dict[cst.FunctionDef, cst.ClassDef]:
        """The functions of a module that its forward passes run, each with a model that does."""
        found: dict[cst.FunctionDef, cst.ClassDef] = {}
        waiting = list(methods_of_models(self.roles, index, ("forward",)))
        while waiting:
            function, owner = waiting.pop()
            if function in found or self.effects.of_function(function) & _TRAINS:
                continue
            found[function] = owner
            waiting += [(inner, owner) for inner in functions_called(self.roles, function)]
        return found

    def trained(self, owner: cst.ClassDef) -> bool:
        """Whether training runs the forward pass of a model: a call of it leads there, or none is seen."""
        calls, seen = self._calls_of(owner), set[cst.CSTNode]()
        waiting = list(calls)
        while waiting:
            for around in self._around(waiting.pop()):
                if self.effects.of(around.body) & _TRAINS:
                    return True
                if isinstance(around, cst.FunctionDef) and around not in seen:
                    seen.add(around)
                    waiting += self._calls_to(around)
        return not calls

    def _around(self, call: cst.Call) -> Iterator[cst.For | cst.While | cst.FunctionDef]:
        """The loops around a call, and the function that it stands in."""
        for node in self.roles.index(call).ancestors(call):
            if isinstance(node, _AROUND):
                yield node
            if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
                return

    def _calls_to(self, function: cst.FunctionDef) -> list[cst.Call]:
        owner = self.roles.index(function).class_of(function)
        found = [call for call, _ in callers(self.roles, function)]
        inside = isinstance(owner, cst.ClassDef) and role_of(self.roles, owner) is Kind.MODEL
        return found + (self._calls_of(owner) if inside and isinstance(owner, cst.ClassDef) else [])

    def _calls_of(self, owner: cst.ClassDef) -> list[cst.Call]:
        """The calls of a model's instances: ``model(x)``."""
        return self.roles.remembered("model calls", self._of_models).get(owner, [])

    def _of_models(self) -> dict[cst.ClassDef, list[cst.Call]]:
        found: dict[cst.ClassDef, list[cst.Call]] = {}
        for call in (c for calls in self.roles.program.calls.values() for c in calls):
            for item in self.roles.facts(call.func):
                if item.kind is Kind.MODEL and isinstance(item.node, cst.ClassDef):
                    found.setdefault(item.node, []).append(call)
        return found
