"""The device variables that a script has: names, attributes of ``self``, options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.scopes import How, ModuleIndex, Scope, parameters
from xla_transforms.tree import dotted, method

_NAMES = re.compile(r"dev|gpu|cuda|acc", re.IGNORECASE)


class Variable:
    """A variable (or attribute) that holds the script's device, as facts of an expression show it."""

    def __init__(self, roles: Roles, text: str, *nodes: cst.CSTNode) -> None:
        """``nodes`` are reads of the variable, or the values given to it; none for one of ours."""
        self.text = text
        facts = {f for node in nodes for f in roles.facts(node) if f.kind is not Kind.NONE}
        self.kinds = {f.kind for f in facts} or {Kind.DEVICE}
        self.places = {place for node in nodes for place in roles.places(node)} or {"cuda", "cpu"}
        self.word = Kind.DEVICE not in self.kinds and bool({Kind.STRING, Kind.OPTION} & self.kinds)
        self.mixed = Kind.DEVICE in self.kinds and Kind.STRING in self.kinds

    @property
    def holds_device(self) -> bool:
        if not self.kinds <= {Kind.DEVICE, Kind.STRING, Kind.OPTION, Kind.UNKNOWN}:
            return False
        if Kind.DEVICE in self.kinds:
            return bool(self.places - {"cpu", "meta"})
        return bool(self.places & {"cuda", "xla"}) or Kind.OPTION in self.kinds

    @property
    def may_be_cpu(self) -> bool:
        """Whether the CPU is among its values, or an option leaves the choice to the user."""
        return "cpu" in self.places or ("?" in self.places and len(self.places) > 1)


class Variables:
    """Finds the nearest device variable at each place of one module."""

    def __init__(self, roles: Roles, index: ModuleIndex) -> None:
        self.roles = roles
        self.index = index
        self._variables: dict[tuple[Scope, str], Variable | None] = {}
        self._names: dict[Scope, list[str]] = {}
        self._declarations: list[tuple[cst.CSTNode, str]] = []

    def visible(self, node: cst.CSTNode) -> Variable | None:
        """The script's own device variable at a place, the nearest one."""
        scope: Scope | None = self.index.scope_of(node)
        first = True
        while scope is not None:
            if first or not isinstance(scope.node, cst.ClassDef):
                found = (
                    self._declared(scope, node)
                    or self._named(scope, node)
                    or (self._of_self(scope, node) if first else None)
                )
                found = found or self._of_arguments(scope, node)
                if found is not None:
                    return found
            if isinstance(scope.node, (cst.FunctionDef, cst.ClassDef)):
                first = first and isinstance(scope.node, cst.ClassDef)
            scope = scope.parent
        return None

    def declare(self, statement: cst.CSTNode, text: str) -> None:
        """Note that a pass binds a device variable, the CPU where the user says so, above a statement."""
        self._declarations.append((statement, text))

    def _declared(self, scope: Scope, node: cst.CSTNode) -> Variable | None:
        for statement, text in self._declarations:
            own = self.index.scope_of(statement) is scope
            inner = self.index.scope_of(node) is not scope
            if own and (inner or self.precedes(statement, node) or self.index.within(node, statement)):
                return Variable(self.roles, text)
        return None

    def _named(self, scope: Scope, node: cst.CSTNode) -> Variable | None:
        for name in self._telling_names(scope):
            variable = self._variable(scope, name)
            if variable is not None and self.bound_before(scope, name, node):
                return variable
        return None

    def _telling_names(self, scope: Scope) -> list[str]:
        """The names of a scope that sound like a device's, the likeliest first."""
        if scope not in self._names:
            names = [n for n in scope.bindings if _NAMES.search(n)]
            order = sorted(names, key=lambda n: (n != "device", not n.startswith("dev"), n))
            self._names[scope] = order
        return self._names[scope]

    def _variable(self, scope: Scope, name: str) -> Variable | None:
        key = (scope, name)
        if key not in self._variables:
            self._variables[key] = self._judge(scope, name)
        return self._variables[key]

    def _judge(self, scope: Scope, name: str) -> Variable | None:
        uses = [
            n
            for n in self.index.named_of(scope, name)
            if not self._is_target(scope, name, n)
        ]
        for use in uses:
            variable = Variable(self.roles, name, use)
            if variable.holds_device:
                return variable
            if variable.kinds == {Kind.UNKNOWN} and self._used_as_device(use):
                return variable
        values = [b.value for b in scope.bindings[name] if b.value is not None and not b.path]
        if uses or not values:
            return None
        variable = Variable(self.roles, name, *values)
        return variable if variable.holds_device else None

    def _is_target(self, scope: Scope, name: str, node: cst.CSTNode) -> bool:
        return any(b.node is node for b in scope.bindings[name])

    def _used_as_device(self, use: cst.CSTNode) -> bool:
        """Whether a name of unknown origin is called a device and handed on as one: ``x.to(device)``."""
        arg = self.index.parent(use)
        call = self.index.parent(arg) if arg is not None else None
        if not isinstance(arg, cst.Arg) or not isinstance(call, cst.Call) or not isinstance(use, cst.Name):
            return False
        keyword = arg.keyword.value if arg.keyword else ""
        wanted = keyword == "device" or (method(call) == "to" and call.args[0] is arg)
        return wanted and use.value.lower().startswith("dev")

    def bound_before(self, scope: Scope, name: str, node: cst.CSTNode) -> bool:
        bindings = scope.bindings[name]
        if self.index.scope_of(node) is not scope and self._function(node) is not self._own(scope):
            return not any(b.how is How.AUGMENT for b in bindings)
        return any(b.how is How.PARAMETER or self.precedes(b.statement, node) for b in bindings)

    def _own(self, scope: Scope) -> cst.CSTNode | None:
        return scope.node if isinstance(scope.node, cst.FunctionDef) else None

    def _function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        return self.index.function_of(node)

    def precedes(self, statement: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether a statement stands, in a block around ``node``, above what holds ``node``."""
        around = {node, *self.index.ancestors(node)}
        current: cst.CSTNode | None = statement
        while current is not None:
            parent = self.index.parent(current)
            if parent in around:
                offsets = self.index.source.offsets
                holds = current in around
                return not holds and offsets(current)[0] < offsets(node)[0] and _sequence(parent)
            current = parent
        return False

    def _of_self(self, scope: Scope, node: cst.CSTNode) -> Variable | None:
        """``self.device``, where the class sets it, outside of and below its assignment."""
        owner = self.index.class_of(node)
        function = self._method_around(node)
        if function is None or owner is None or not parameters(function):
            return None
        name = parameters(function)[0].name.value
        for attribute in self._attributes_of(owner, name):
            variable = Variable(self.roles, f"{name}.{attribute.attr.value}", attribute)
            if variable.holds_device and self._set_before(attribute, function, node):
                return variable
        return None

    def _method_around(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The method in whose body (or inner functions) a node stands."""
        found: cst.FunctionDef | None = None
        for parent in self.index.ancestors(node):
            if isinstance(parent, cst.ClassDef):
                return found
            found = parent if isinstance(parent, cst.FunctionDef) else found
        return None

    def _attributes_of(self, owner: cst.ClassDef, name: str) -> Iterator[cst.Attribute]:
        for attr, bindings in self.index.attributes.items():
            for binding in bindings if _NAMES.search(attr) else ():
                target = binding.node
                own = self.index.class_of(target) is owner
                if own and isinstance(target, cst.Attribute) and dotted(target.value) == name:
                    yield target

    def _set_before(self, target: cst.Attribute, function: cst.CSTNode, node: cst.CSTNode) -> bool:
        setter = self._function(target)
        if setter is function:
            statement = self.index.statement_of(target)
            return statement is not None and self.precedes(statement, node)
        return setter is not None and setter.name.value == "__init__"

    def _of_arguments(self, scope: Scope, node: cst.CSTNode) -> Variable | None:
        """``args.device``, where the script uses it so and ``args`` is bound in this scope."""
        for read in self._option_reads:
            base = read.value
            assert isinstance(base, cst.Name)
            if self.index.scope_of(read).owner(base.value) is scope:
                variable = Variable(self.roles, dotted(read), read)
                if variable.holds_device and self.bound_before(scope, base.value, node):
                    return variable
        return None

    @cached_property
    def _option_reads(self) -> list[cst.Attribute]:
        return [
            n
            for n in self.index.all(cst.Attribute)
            if isinstance(n, cst.Attribute)
            and isinstance(n.value, cst.Name)
            and "device" in n.attr.value.lower()
            and Kind.ARGUMENTS in self.roles.kinds(n.value)
        ]


def _sequence(node: cst.CSTNode | None) -> bool:
    """Whether what a node holds runs one after the other."""
    return isinstance(
        node, (cst.IndentedBlock, cst.Module, cst.SimpleStatementLine, cst.SimpleStatementSuite)
    )
