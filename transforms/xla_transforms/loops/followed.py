"""The functions that the steps of a program run, in whichever of its modules they stand."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

import libcst as cst

from xla_transforms.loops.effects import Effects
from xla_transforms.loops.reads import Reads
from xla_transforms.loops.sinks import Sinks, bound_names, targeted
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.classes import find_method, role_of
from xla_transforms.scopes import ModuleIndex
from xla_transforms.tree import LOOPS, children, walk

_FORWARD = frozenset({"forward", "training_step", "validation_step", "test_step"})
_ASKS = frozenset(f"builtins.{name}" for name in ("isinstance", "hasattr", "getattr", "callable"))
_APART = (cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.ExceptHandler)


def functions_of(roles: Roles, call: cst.Call) -> Iterator[cst.FunctionDef]:
    """The functions of the program that a call runs, the ``__call__`` of an object among them."""
    for item in roles.facts(call.func):
        found = item.node
        if item.kind is Kind.INSTANCE and isinstance(found, cst.ClassDef):
            found = find_method(roles, found, "__call__")
        if isinstance(found, cst.FunctionDef):
            yield found


def methods_of_models(
    roles: Roles, index: ModuleIndex, names: Collection[str]
) -> Iterator[tuple[cst.FunctionDef, cst.ClassDef]]:
    """The methods of some names that models of a module have, each with its class."""
    for owner in index.all(cst.ClassDef):
        if isinstance(owner, cst.ClassDef) and role_of(roles, owner) is Kind.MODEL:
            for part in owner.body.body:
                if isinstance(part, cst.FunctionDef) and part.name.value in names:
                    yield part, owner


class Followed:
    """``loops`` are the step loops of a program, ``functions`` what they and the models run, somewhere below.

    ``every`` are the functions that each iteration of a loop runs, each with that loop: what an iteration
    decides anew, or may put off, is left out. (Functions of models are as well ``Forwards``' to answer for.)
    """

    def __init__(self, roles: Roles) -> None:
        self.roles, self.effects = roles, Effects(roles)
        self.sinks = Sinks(roles, self.effects, Reads(roles))
        modules = roles.program.modules.values()
        nodes = [n for index in modules for n in index.all(*LOOPS) if self.effects.is_step_loop(n)]
        self.loops = [node for node in nodes if not roles.dead(node)]
        self._loops = frozenset(self.loops)
        self.functions = self._below()
        self.every = self._run_by_all()

    @classmethod
    def of(cls, roles: Roles) -> Followed:
        return roles.remembered("followed", lambda: cls(roles))

    def _below(self) -> frozenset[cst.FunctionDef]:
        found: set[cst.FunctionDef] = set()
        waiting: list[cst.CSTNode] = [getattr(loop, "body", loop) for loop in self.loops]
        waiting += self._forwards() if waiting else []
        while waiting:
            node = waiting.pop()
            if isinstance(node, cst.FunctionDef):
                if node in found:
                    continue
                found.add(node)
            for call in self.roles.index(node).inside(node, cst.Call):
                waiting += functions_of(self.roles, call)
        return frozenset(found)

    def _forwards(self) -> list[cst.FunctionDef]:
        modules = self.roles.program.modules.values()
        return [f for index in modules for f, _ in methods_of_models(self.roles, index, _FORWARD)]

    def _run_by_all(self) -> dict[cst.FunctionDef, cst.CSTNode]:
        found: dict[cst.FunctionDef, cst.CSTNode] = {}
        waiting: list[tuple[cst.CSTNode, cst.CSTNode]] = [(loop, loop) for loop in self.loops]
        while waiting:
            code, loop = waiting.pop()
            for call in (n for n in self.reached(code, sinks=False) if isinstance(n, cst.Call)):
                for function in functions_of(self.roles, call) if not self.roles.dead(call) else ():
                    if function not in found:
                        found[function] = loop
                        waiting.append((function, loop))
        return found

    def reached(self, code: cst.CSTNode, *, sinks: bool = True) -> Iterator[cst.CSTNode]:
        """What each run of a loop's body, or of a function, comes to; step loops within it left out."""
        bound = _bound(code)
        stack = [getattr(code, "body", code)]
        while stack:
            node = stack.pop()
            if isinstance(node, _APART) or node in self._loops:
                continue
            if not sinks and self._may_wait(node):
                continue
            yield node
            if isinstance(node, cst.If) and self._varies(node.test, bound):
                stack.append(node.test)
            else:
                stack += reversed(children(node))

    def _may_wait(self, node: cst.CSTNode) -> bool:
        """Whether a statement only shows something or hands it to what collects: a step closure may do it."""
        line = isinstance(node, cst.SimpleStatementLine) and all(isinstance(s, cst.Expr) for s in node.body)
        return line and self.sinks.is_sink(node)

    def _varies(self, test: cst.BaseExpression, bound: set[str]) -> bool:
        """Whether a condition may be true in one run and not in the next, or is asked of a function.

        ``bound`` are the names that a run binds.
        """
        for node in walk(test):
            if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
                return True
            if isinstance(node, cst.Name) and node.value in bound:
                return True
            if isinstance(node, cst.Attribute) and node.attr.value in self.counters:
                return True
            if isinstance(node, cst.Call) and self.roles.path(node.func) not in _ASKS:
                return True
        return False

    @cached_property
    def counters(self) -> frozenset[str]:
        """The names of attributes that the program counts up somewhere: ``self.iteration += 1``."""
        modules = self.roles.program.modules.values()
        counted = (getattr(n, "target", None) for index in modules for n in index.all(cst.AugAssign))
        return frozenset(target.attr.value for target in counted if isinstance(target, cst.Attribute))


def _bound(code: cst.CSTNode) -> set[str]:
    """The names that a run of a loop's body or of a function binds, but for what loops in it go through."""
    targets = [n for n in walk(code, into_functions=False) if isinstance(n, (cst.Assign, cst.AugAssign))]
    own = {n.value for n in targeted(code.target)} if isinstance(code, cst.For) else set[str]()
    return own.union(*map(bound_names, targets))
