"""Why an expression is not understood: the way back from it, up to where it leaves what can be read."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from xla_transforms.mapping.makers import text_of
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.classes import bases, is_self, set_through_self
from xla_transforms.roles.facts import UNKNOWN, of_kind
from xla_transforms.roles.structure import is_wrapper
from xla_transforms.scopes import Binding, How, parameters
from xla_transforms.tree import value_of

_DEPTH = 8


class Reasons:
    """Explains, for the expressions of one program, why they are not surely of one of the kinds wanted.

    Of the calls of a function only those that are ``reached`` count, by default all.
    """

    def __init__(self, roles: Roles, reached: Collection[cst.Call] | None = None) -> None:
        self.roles, self.reached = roles, reached

    def why(self, node: cst.CSTNode | None, *wanted: Kind) -> str:
        """The reason in words, from the expression backwards; the value that decides it where one does.

        Empty where all that is known to arrive is of a kind that is wanted.
        """
        if node is None:
            return "nothing is given"
        found = list(dict.fromkeys(self._unless_known(node, wanted, 0, set())))
        if not found and not self.roles.kinds(node) & set(wanted):
            found = ["what it is made of cannot be read"]
        return " or ".join(found[:3])

    def behind(self, node: cst.CSTNode | None, *wanted: Kind) -> str:
        """The way back from what is known by its use alone; empty where none is seen."""
        found = list(dict.fromkeys(self._why(node, wanted, 0, set()))) if node is not None else []
        return "".join(f": {' or '.join(found[:3])}" for _ in found[:1])

    def _why(self, node: cst.CSTNode, wanted: tuple[Kind, ...], depth: int, seen: set[int]) -> Iterator[str]:
        if depth > _DEPTH or id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, cst.Name):
            yield from self._name(node, wanted, depth + 1, seen)
        elif isinstance(node, cst.Attribute):
            yield from self._attribute(node, wanted, depth + 1, seen)
        elif isinstance(node, cst.Call):
            yield from self._call(node, wanted, depth + 1, seen)
        elif isinstance(node, cst.Subscript):
            yield from self._entry(node, wanted, depth + 1, seen)
        elif isinstance(node, cst.IfExp):
            for way in (node.body, node.orelse):
                yield from self._unless_known(way, wanted, depth, seen)
        else:
            yield f"{self._at(node)} is not followed"

    def _unless_known(
        self, node: cst.CSTNode, wanted: tuple[Kind, ...], depth: int, seen: set[int]
    ) -> Iterator[str]:
        facts = self.roles.facts(node)
        if UNKNOWN & facts or not {f.kind for f in facts} & set(wanted):
            yield from self._why(node, wanted, depth, seen)

    def _name(self, node: cst.Name, wanted: tuple[Kind, ...], depth: int, seen: set[int]) -> Iterator[str]:
        bindings = self.roles.bindings(node)
        if not bindings and node.value != "None":
            yield f"{node.value} is bound nowhere in its file (a star import, or a builtin)"
        for binding in bindings:
            yield from self._binding(binding, node.value, wanted, depth, seen)

    def _binding(
        self, binding: Binding, name: str, wanted: tuple[Kind, ...], depth: int, seen: set[int]
    ) -> Iterator[str]:
        if binding.how is How.PARAMETER:
            yield from self._parameter(binding, wanted, depth, seen)
        elif binding.how is How.IMPORT:
            yield f"{binding.name} is not in the project"
        elif binding.how is How.ITERATE and binding.value is not None:
            yield from self._taken(binding.value, f"{name} is an element of", wanted, depth, seen)
        elif binding.value is not None and binding.path:
            yield from self._unpacked(binding, name, wanted, depth, seen)
        elif binding.value is not None:
            yield from self._unless_known(binding.value, wanted, depth, seen)

    def _unpacked(
        self, binding: Binding, name: str, wanted: tuple[Kind, ...], depth: int, seen: set[int]
    ) -> Iterator[str]:
        """Of tuples the element alone, where it is seen which one is meant."""
        assert binding.value is not None
        facts = self.roles.facts(binding.value)
        nodes = [f.node for f in facts if isinstance(f.node, cst.Tuple) and len(binding.path) == 1]
        if len(nodes) == len(facts) and all(binding.path[0] < len(n.elements) for n in nodes):
            for node in nodes:
                yield from self._unless_known(node.elements[binding.path[0]].value, wanted, depth, seen)
        else:
            yield from self._taken(binding.value, f"{name} is unpacked from", wanted, depth, seen)

    def _taken(
        self, whole: cst.CSTNode, how: str, wanted: tuple[Kind, ...], depth: int, seen: set[int]
    ) -> Iterator[str]:
        inner = " or ".join(self._why(whole, wanted, depth, seen))
        yield f"{how} {self._at(whole)}" + (f": {inner}" if inner else "")

    def _parameter(
        self, binding: Binding, wanted: tuple[Kind, ...], depth: int, seen: set[int]
    ) -> Iterator[str]:
        function, param = binding.statement, binding.node
        if not isinstance(function, cst.FunctionDef) or not isinstance(param, cst.Param):
            yield f"{self._at(binding.node)} is a parameter of a lambda"
            return
        name, label = param.name.value, f"parameter {param.name.value} of {function.name.value}()"
        position = next((i for i, p in enumerate(parameters(function)) if p is param), 0)
        sites = [s for s in callers(self.roles, function) if self.reached is None or s[0] in self.reached]
        if not sites:
            yield f"{label}, which nothing in the project is seen to call"
        for site, taken in sites:
            given = value_of(site, name, position - taken)
            if given is None and any(arg.star for arg in site.args):
                yield f"{label}, which is handed on by a star at {self._where(site)}"
            elif given is not None:
                for inner in self._unless_known(given, wanted, depth, seen):
                    yield f"{label}, given {self._at(given)}: {inner}"

    def _attribute(
        self, node: cst.Attribute, wanted: tuple[Kind, ...], depth: int, seen: set[int]
    ) -> Iterator[str]:
        arguments = of_kind(self.roles.facts(node.value), Kind.ARGUMENTS)
        owner = self.roles.index(node).class_of(node)
        if arguments:
            yield f"the command line decides it ({text_of(self.roles, node)})"
        elif owner is not None and is_self(self.roles, node.value):
            found = set_through_self(self.roles, owner, node.attr.value)
            if not found:
                paths = (base for base in bases(self.roles, owner) if isinstance(base, str))
                outside = [path for path in paths if not path.startswith("builtins.")]
                told = f", which inherits from {outside[0]}" if outside else ""
                yield f"nothing in the project sets self.{node.attr.value} of {owner.name.value}{told}"
            for binding in found:
                yield from self._binding(binding, text_of(self.roles, node), wanted, depth, seen)
        elif not self.roles.kinds(node.value):
            yield from self._why(node.value, wanted, depth, seen)
        else:
            yield f"what {self._at(node)} is cannot be read"

    def _call(self, node: cst.Call, wanted: tuple[Kind, ...], depth: int, seen: set[int]) -> Iterator[str]:
        path = self.roles.path(node.func)
        if is_wrapper(self.roles, node):
            yield from self._why(node.args[0].value, wanted, depth, seen)
        elif path == "builtins.getattr":
            deciding = node.args[1].value if len(node.args) > 1 else node
            yield f"{self._at(node)}: {text_of(self.roles, deciding)} decides"
        elif path:
            yield f"{path}(), which {self._where(node)} calls, is not in the project"
        elif functions := of_kind(self.roles.facts(node.func), Kind.FUNCTION):
            for fact in functions:
                yield from self._returned(fact.node, wanted, depth, seen)
        elif isinstance(node.func, cst.Call):
            yield from self._call(node.func, wanted, depth, seen)
        else:
            yield from self._taken(node.func, "what gives back is not known:", wanted, depth, seen)

    def _returned(
        self, function: cst.CSTNode | None, wanted: tuple[Kind, ...], depth: int, seen: set[int]
    ) -> Iterator[str]:
        if not isinstance(function, cst.FunctionDef):
            return
        values = [getattr(n, "value", None) for n in self.roles.exits(function)]
        for value in values:
            if value is not None:
                yield from self._unless_known(value, wanted, depth, seen)
        if not values:
            yield f"{function.name.value}() at {self._where(function)} gives nothing back"

    def _entry(
        self, node: cst.Subscript, wanted: tuple[Kind, ...], depth: int, seen: set[int]
    ) -> Iterator[str]:
        yield from self._taken(node.value, "an entry of", wanted, depth, seen)

    def _at(self, node: cst.CSTNode) -> str:
        return f"{text_of(self.roles, node)} ({self._where(node)})"

    def _where(self, node: cst.CSTNode) -> str:
        source = self.roles.index(node).source
        return f"{source.path}:{source.span(node).line}"
