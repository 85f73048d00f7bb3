"""The way of a model from a statement to its move: whether what uses it between asks where it is."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.early_moves.block import HARMLESS
from xla_transforms.models import Move, comes_before
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import arriving_parameter, callers
from xla_transforms.roles.classes import find_method, is_self, lineage
from xla_transforms.tree import method

_READING = frozenset({"parameters", "named_parameters", "state_dict"})
_LOOKING = frozenset({"numel", "size", "nelement", "parameters", "named_parameters"})
_SHOWING = frozenset({"sum", "len", "print", "filter", "format", "str"})
_EXPRESSIONS = (cst.Attribute, cst.Subscript, cst.Call)


class Travel:
    """All uses of what ``origin`` makes that may run behind ``start`` and before ``move``."""

    def __init__(self, roles: Roles, origin: cst.CSTNode, start: cst.CSTNode, move: Move) -> None:
        self.roles, self.origin, self.start, self.move = roles, origin, start, move

    def harmless(self) -> bool:
        return all(self._harmless(use) for use in self._uses() if not self._elsewhere(use))

    def _uses(self) -> Iterator[cst.BaseExpression]:
        """Every expression that may be the model, but for the inside of its class."""
        for index in self.roles.program.modules.values():
            for node in (*index.names(), *index.all(*_EXPRESSIONS)):
                assert isinstance(node, cst.BaseExpression)
                if self.origin in self.roles.origins(node, Kind.MODEL) and not self._within_class(node):
                    yield node

    def _within_class(self, node: cst.BaseExpression) -> bool:
        owner = self.roles.index(node).class_of(node)
        ours = lineage(self.roles, self.origin) if isinstance(self.origin, cst.ClassDef) else ()
        return owner is not None and owner in ours and is_self(self.roles, node)

    def _elsewhere(self, use: cst.BaseExpression) -> bool:
        """Whether a use is the move's own, runs in front of the statement or behind the move."""
        index = self.roles.index(use)
        if index.within(use, self.move.call) or self._above(use):
            return True
        return comes_before(self.roles, self.move.call, use) is True

    def _above(self, use: cst.BaseExpression) -> bool:
        """Whether a use stands above the statement in its block."""
        index, block = self.roles.index(use), self.roles.index(self.start).parent(self.start)
        above = block is not None and index.within(use, block)
        return above and index.source.offsets(use)[1] <= index.source.offsets(self.start)[0]

    def _harmless(self, use: cst.BaseExpression) -> bool:
        parent = self.roles.index(use).parent(use)
        if isinstance(parent, cst.Attribute):
            return self._of_attribute(parent)
        if isinstance(parent, cst.Arg):
            return self._handed(parent)
        if isinstance(parent, (cst.AssignTarget, cst.Assign)):
            return self._named(parent)
        if isinstance(parent, cst.Element):  # of ``model, optimizer = build()``, or of what is returned
            return self._among(parent)
        return isinstance(parent, (cst.Param, cst.Return, cst.Expr))

    def _named(self, parent: cst.AssignTarget | cst.Assign) -> bool:
        """Whether a model is given to plain variables and attributes of ``self``."""
        targets = [parent] if isinstance(parent, cst.AssignTarget) else parent.targets
        return all(_plain(self.roles, target.target) for target in targets)

    def _among(self, element: cst.Element) -> bool:
        index = self.roles.index(element)
        outer = index.parent(element)
        holder = index.parent(outer) if isinstance(outer, cst.Tuple) else None
        if isinstance(holder, cst.AssignTarget):
            return _plain(self.roles, element.value)
        function = index.function_of(element) if isinstance(holder, cst.Return) else None
        return function is not None and all(
            self._unpacked(site) for site, _ in callers(self.roles, function)
        )

    def _unpacked(self, site: cst.Call) -> bool:
        """Whether a call's results get names of their own at once."""
        assign = self.roles.index(site).parent(site)
        targets = [t.target for t in assign.targets] if isinstance(assign, cst.Assign) else []
        return bool(targets) and all(isinstance(target, cst.Tuple) for target in targets)

    def _handed(self, arg: cst.Arg) -> bool:
        """Whether an argument goes to a function of the program, where it is followed further."""
        call = self.roles.index(arg).parent(arg)
        if not isinstance(call, cst.Call):
            return False
        if self.roles.path(call.func) == "builtins.print":
            return True
        runs = [self._run(fact.kind, fact.node) for fact in self.roles.facts(call.func)]
        return bool(runs) and all(
            run is not None and arriving_parameter(self.roles, run, call, arg) is not None for run in runs
        )

    def _run(self, kind: Kind, node: cst.CSTNode | None) -> cst.FunctionDef | None:
        if kind is Kind.FUNCTION and isinstance(node, cst.FunctionDef):
            return node
        made = kind is Kind.CLASS and isinstance(node, cst.ClassDef)
        return find_method(self.roles, node, "__init__") if made and isinstance(node, cst.ClassDef) else None

    def _of_attribute(self, attribute: cst.Attribute) -> bool:
        """Whether an attribute of the model is a method that does not ask where it is, and is called."""
        index = self.roles.index(attribute)
        outer = index.parent(attribute)
        if isinstance(outer, cst.Attribute):
            return self._of_attribute(outer)
        called = isinstance(outer, cst.Call) and outer.func is attribute
        call = outer if called and isinstance(outer, cst.Call) else None
        if call is None or method(call) not in HARMLESS:
            return False
        return method(call) not in _READING or self._only_looks(call)

    def _only_looks(self, call: cst.Call) -> bool:
        """Whether what reads the parameters gives them to an optimizer, counts or shows them."""
        statement = self.roles.index(call).statement_of(call)
        if statement is None:
            return False
        calls = self.roles.index(call).inside(statement, cst.Call)
        shown = {c for c in calls if self.roles.path(c.func).removeprefix("builtins.") in _SHOWING}
        looks = bool(shown) and all(c in shown or method(c) in _LOOKING for c in calls)
        return looks or any(self.roles.is_a(c, Kind.OPTIMIZER) for c in calls)


def _plain(roles: Roles, target: cst.BaseExpression) -> bool:
    own = isinstance(target, cst.Attribute) and is_self(roles, target.value)
    return own or isinstance(target, (cst.Name, cst.Tuple))
