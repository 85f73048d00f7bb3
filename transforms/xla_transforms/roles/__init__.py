"""What each expression of a program is: device, model, optimizer, scaler, loader, loss, batch ...

Everything is answered on demand from the index: a name by the bindings that reach it, a parameter by the
calls of its function, an attribute of ``self`` by its assignments in the class, a call by the catalog or
by the returns of the function called. Where nothing is known the answer is ``UNKNOWN``, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import libcst as cst

from xla_transforms.program import Program
from xla_transforms.roles import evaluate, fold, structure, usage
from xla_transforms.roles.facts import NOTHING, UNKNOWN, Fact, Facts, Kind, known, of_kind
from xla_transforms.roles.flow import reaching
from xla_transforms.scopes import Binding, How, ModuleIndex

__all__ = ["UNKNOWN", "Fact", "Facts", "Kind", "Roles"]


class Roles:
    """The analysis of one program. All questions take nodes of its modules."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.several: dict[ModuleIndex, list[cst.CSTNode]] = {}  # see placing.several
        self._facts: dict[cst.CSTNode, Facts] = {}
        self._provisional: dict[cst.CSTNode, Facts] = {}
        self._folded: dict[cst.CSTNode, bool | None] = {}
        self._busy: set[object] = set()
        self._cut = False

    def index(self, node: cst.CSTNode) -> ModuleIndex:
        return self.program.index_of(node)

    def facts(self, node: cst.CSTNode) -> Facts:
        """All that an expression may be; with ``UNKNOWN`` among them where some source is not understood."""
        if node in self._facts:
            return self._facts[node]
        if node in self._provisional:
            self._cut = True
            return self._provisional[node]
        if node in self._busy:
            self._cut = True
            return NOTHING
        outer_cut, self._cut = self._cut, False
        self._busy.add(node)
        try:
            facts = evaluate.expression(self, node)
        finally:
            self._busy.discard(node)
        if not known(facts):
            facts = usage.evidence(self, node) or facts
        # What was found while a question further out was open may lack its answer: it holds for that
        # question only, where asking again would cost time that grows with every cycle.
        if not self._cut or not self._busy:
            self._facts[node] = facts
        else:
            self._provisional[node] = facts
        if not self._busy:
            self._provisional.clear()
        self._cut = (self._cut or outer_cut) and bool(self._busy)
        return facts

    def kinds(self, node: cst.CSTNode | None) -> set[Kind]:
        return {f.kind for f in known(self.facts(node))} if node is not None else set()

    def is_a(self, node: cst.CSTNode | None, kind: Kind) -> bool:
        """Whether all that is known of the expression says that it is of this kind."""
        return self.kinds(node) == {kind}

    def may_be(self, node: cst.CSTNode | None, kind: Kind) -> bool:
        return kind in self.kinds(node)

    def origins(self, node: cst.CSTNode, kind: Kind) -> set[cst.CSTNode]:
        """The calls, classes or literals from which values of this kind come to the expression."""
        return {f.node for f in of_kind(self.facts(node), kind) if f.node is not None}

    def path(self, node: cst.CSTNode | None) -> str:
        """The dotted path of what an expression names, imports resolved: ``torch.cuda.amp.autocast``."""
        if node is None:
            return ""
        if not isinstance(node, (cst.Name, cst.Attribute)):
            return ""
        names = of_kind(self.facts(node), Kind.NAME)
        return next(iter(names)).detail if len(names) == 1 else ""

    def spelled(self, node: cst.CSTNode) -> frozenset[str]:
        """The dotted paths that an expression spells out through imports; none for a variable.

        More than one where an import is tried and another one stands in for it.
        """
        root = node
        while isinstance(root, cst.Attribute):
            root = root.value
        if not isinstance(root, cst.Name):
            return frozenset()
        found = self.bindings(root)
        if not found or any(b.how is not How.IMPORT for b in found):
            return frozenset()
        return frozenset(f.detail for f in of_kind(self.facts(node), Kind.NAME))

    def bindings(self, name: cst.Name) -> list[Binding]:
        """The bindings that may reach this use of a name, those in dead branches left out."""
        index = self.index(name)
        scope = index.scope_of(name).owner(name.value)
        if scope is None:
            return []
        found = reaching(index, name, scope, scope.bindings[name.value], self._decided)
        alive = [b for b in found if not self.dead(b.statement)]
        return alive or found

    def fold(self, condition: cst.CSTNode) -> bool | None:
        """The value a condition had on CUDA, ``None`` where it is open (see ``roles.fold``)."""
        if condition not in self._folded:
            self._folded[condition] = fold.fold(self, condition)
        return self._folded[condition]

    def _decided(self, condition: cst.CSTNode) -> bool | None:
        with self.guarded(("decided", condition)) as free:
            return self.fold(condition) if free else None

    def dead(self, node: cst.CSTNode) -> bool:
        """Whether a statement stands in a branch that was never taken on CUDA."""
        index = self.index(node)
        child = node
        for parent in index.ancestors(node):
            if isinstance(parent, cst.If) and child is not parent.test:
                with self.guarded(("dead", parent)) as free:
                    value = self.fold(parent.test) if free else None
                if value is not None and value is not (child is parent.body):
                    return True
            child = parent
        return False

    def places(self, node: cst.CSTNode) -> set[str]:
        """The device types an expression (a device, a string, an option) may name; ``?`` for any."""
        return evaluate.places(self.facts(node))

    def element(self, node: cst.CSTNode, path: tuple[int | str, ...]) -> Facts:
        """What iterating over an expression gives, led through tuple unpacking by ``path``."""
        return structure.iterated(self, node, path)

    @contextmanager
    def guarded(self, key: object) -> Iterator[bool]:
        """Marks a question as being asked; gives ``False`` where it is being asked already."""
        key = ("guard", key)
        free = key not in self._busy
        if not free:
            self._cut = True
        self._busy.add(key)
        try:
            yield free
        finally:
            if free:
                self._busy.discard(key)
