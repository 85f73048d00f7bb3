"""Who calls whom, from an entry on: what is called, and what is handed to something that calls it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.classes import find_method
from xla_transforms.tree import FUNCTIONS, children

Code = cst.FunctionDef | cst.Lambda
_RUN = {Kind.CLASS: "__init__", Kind.MODEL: "forward", Kind.INSTANCE: "__call__"}
_DEFINITIONS = (*FUNCTIONS, cst.ClassDef)


class Reach:
    """Answers, with memory, which functions of the program a piece of code may come to run."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self._called: dict[cst.Call, tuple[Code, ...]] = {}
        self._from: dict[cst.CSTNode, tuple[Code, ...]] = {}

    def calls(self, code: cst.CSTNode) -> Iterator[cst.Call]:
        """The calls of a piece of code itself that were reached on CUDA, in source order."""
        for node in own(code):
            if isinstance(node, cst.Call) and not self.roles.dead(node):
                yield node

    def called(self, call: cst.Call) -> tuple[Code, ...]:
        """What a call runs: what it names, and the functions that it hands over."""
        if call not in self._called:
            found = [*self._run(call.func), *(f for arg in call.args for f in self._handed(arg.value))]
            self._called[call] = tuple(dict.fromkeys(found))
        return self._called[call]

    def _run(self, node: cst.CSTNode) -> Iterator[Code]:
        for item in self.roles.facts(node):
            if item.kind is Kind.FUNCTION and isinstance(item.node, FUNCTIONS):
                yield item.node
            elif isinstance(item.node, cst.ClassDef) and item.kind in _RUN:
                run = find_method(self.roles, item.node, _RUN[item.kind])
                if run is not None:
                    yield run

    def _handed(self, node: cst.BaseExpression) -> Iterator[Code]:
        if isinstance(node, (cst.Name, cst.Attribute, *FUNCTIONS)):
            facts = self.roles.facts(node)
            yield from (f.node for f in facts if f.kind is Kind.FUNCTION and isinstance(f.node, FUNCTIONS))

    def direct(self, code: cst.CSTNode) -> tuple[Code, ...]:
        """The functions that a piece of code itself runs."""
        if code not in self._from:
            found = (f for call in self.calls(code) for f in self.called(call))
            self._from[code] = tuple(dict.fromkeys(found))
        return self._from[code]

    def everything(self, *codes: cst.CSTNode) -> list[cst.CSTNode]:
        """Pieces of code with all functions that they may come to run, the pieces first."""
        found, ahead = dict.fromkeys(codes), list(codes)
        while ahead:
            fresh = [f for f in self.direct(ahead.pop()) if f not in found]
            found.update(dict.fromkeys(fresh))
            ahead.extend(fresh)
        return list(found)


def own(code: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes that run when a piece of code runs: not those of functions and classes defined in it."""
    stack = [code]
    while stack:
        node = stack.pop()
        yield node
        if node is not code and isinstance(node, _DEFINITIONS):
            stack.extend(getattr(node, "decorators", ()))
            continue
        inner = [node.body] if isinstance(node, FUNCTIONS) else children(node)
        stack.extend(reversed(inner))


def uses_gradient(code: cst.CSTNode) -> bool:
    """Whether code reads the gradient of something: parameters may be changed by hand."""
    return any(isinstance(node, cst.Attribute) and node.attr.value == "grad" for node in own(code))
