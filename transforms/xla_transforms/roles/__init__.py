"""What each expression of a program is: device, model, optimizer, scaler, loader, loss, batch ...

Everything is answered on demand from the index: a name by the bindings that reach it, a parameter by the
calls of its function, an attribute of ``self`` by its assignments in the class, a call by the catalog or
by the returns of the function called. Where nothing is known the answer is ``UNKNOWN``, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any, TypeVar, cast

import libcst as cst

from xla_transforms.program import Program
from xla_transforms.roles import evaluate, fold, handing, structure, usage
from xla_transforms.roles.facts import NOTHING, UNKNOWN, Fact, Facts, Kind, known, of_kind, says
from xla_transforms.roles.flow import reaching
from xla_transforms.roles.questions import Questions
from xla_transforms.scopes import Binding, Branch, How, ModuleIndex

__all__ = ["UNKNOWN", "Fact", "Facts", "Kind", "Roles"]

Answer = TypeVar("Answer")


class Roles:
    """The analysis of one program. All questions take nodes of its modules."""

    def __init__(self, program: Program, replicated: bool | None = None) -> None:
        """``replicated`` tells that the processes of a program stay several; by default as it has them."""
        self.program = program
        self.several: dict[ModuleIndex, list[cst.CSTNode]] = {}  # see placing.several
        self.replicated = program.replicated if replicated is None else replicated
        self._facts: dict[int, Facts] = {}  # by the ``id`` of the expression, as in the index
        self._held: dict[Facts, Facts] = {}  # equal answers are held once
        self._paths: dict[int, str] = {}
        self._exits: dict[cst.FunctionDef, list[cst.CSTNode]] = {}
        self._memory: dict[object, Any] = {}
        self._variables: list[tuple[cst.Call, Facts]] | None = None
        self._questions = Questions()

    def index(self, node: cst.CSTNode) -> ModuleIndex:
        return self.program.index_of(node)

    def facts(self, node: cst.CSTNode) -> Facts:
        """All that an expression may be; with ``UNKNOWN`` among them where some source is not understood."""
        key = id(node)
        if key in self._facts:
            return self._facts[key]
        questions = self._questions
        if lacking := questions.lacking(key):
            return cast(Facts, lacking[0])
        if questions.is_open(key):
            return NOTHING
        if not questions:
            questions.forget()
            if self._variables is None:
                self._gather()
        state = questions.begin(key)
        try:
            facts = evaluate.expression(self, node)
        finally:
            questions.end(key)
        if not says(facts):
            facts = usage.evidence(self, node) or facts
        if questions.settle(key, facts, state):
            self._facts[key] = facts = self._held.setdefault(facts, facts)
        return facts

    def kinds(self, node: cst.CSTNode | None) -> set[Kind]:
        return {f.kind for f in known(self.facts(node))} if node is not None else set()

    def is_a(self, node: cst.CSTNode | None, kind: Kind) -> bool:
        """Whether all that is known of the expression says that it is of this kind."""
        return self.kinds(node) == {kind}

    def may_be(self, node: cst.CSTNode | None, kind: Kind) -> bool:
        return node is not None and any(f.kind is kind for f in self.facts(node))

    def origins(self, node: cst.CSTNode, kind: Kind) -> Set[cst.CSTNode]:
        """The calls, classes or literals from which values of this kind come to the expression.

        In the order of the facts, which that of a set of nodes would not be.
        """
        found = (f.node for f in of_kind(self.facts(node), kind))
        return dict.fromkeys(node for node in found if node is not None).keys()

    def path(self, node: cst.CSTNode | None) -> str:
        """The dotted path of what an expression names, imports resolved: ``torch.cuda.amp.autocast``."""
        if type(node) is not cst.Name and type(node) is not cst.Attribute:
            return ""
        key = id(node)
        if key in self._paths:
            return self._paths[key]
        facts = self.facts(node)
        names = of_kind(facts, Kind.NAME)
        path = next(iter(names)).detail if len(names) == 1 and not self._chosen(node, facts) else ""
        if key in self._facts:  # else the answer holds for the question further out alone
            self._paths[key] = path
        return path

    def _chosen(self, node: cst.CSTNode, facts: Facts) -> bool:
        """Whether an expression is a function of the program as well, by the script's own choice:
        ``run = checkpoint if wanted else plain``. (What stands in for a failed import is no choice.)"""
        if not any(f.kind is Kind.FUNCTION for f in facts):
            return False
        fallback = isinstance(node, cst.Name) and all(
            b.how in (How.IMPORT, How.DEFINE) for b in self.bindings(node)
        )
        return not fallback

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
        if len(found) < 2:
            return found
        alive = [b for b in found if not self.dead(b.statement)]
        return alive or found

    def exits(self, function: cst.FunctionDef) -> list[cst.CSTNode]:
        """The ``return`` and ``yield`` of a function itself."""
        if function not in self._exits:
            self._exits[function] = list(self.index(function).own(function.body, cst.Return, cst.Yield))
        return self._exits[function]

    def fold(self, condition: cst.CSTNode) -> bool | None:
        """The value a condition had on CUDA, ``None`` where it is open (see ``roles.fold``)."""
        return self.remembered(("fold", id(condition)), lambda: fold.fold(self, condition))

    def _decided(self, condition: cst.CSTNode) -> bool | None:
        with self.guarded(("decided", condition)) as free:
            return self.fold(condition) if free else None

    def dead(self, node: cst.CSTNode) -> bool:
        """Whether a statement stands in a branch that was never taken on CUDA."""
        branch = self.index(node).branch(node)
        return branch is not None and self.remembered(("dead", id(branch)), lambda: self._dead(branch))

    def _dead(self, branch: Branch | None) -> bool:
        while branch is not None:
            with self.guarded(("dead", branch.statement)) as free:
                value = self.fold(branch.statement.test) if free else None
            if value is not None and value is not branch.in_body:
                return True
            branch = branch.outer
        return False

    def places(self, node: cst.CSTNode) -> set[str]:
        """The device types an expression (a device, a string, an option) may name; ``?`` for any."""
        return evaluate.places(self.facts(node))

    def element(self, node: cst.CSTNode, path: tuple[int | str, ...]) -> Facts:
        """What iterating over an expression gives, led through tuple unpacking by ``path``."""
        return structure.iterated(self, node, path)

    def remembered(self, key: object, answer: Callable[[], Answer]) -> Answer:
        """The answer to a question, kept unless one that is open further out had a part in it."""
        if key in self._memory:
            return cast("Answer", self._memory[key])
        if lacking := self._questions.lacking(key):
            return cast("Answer", lacking[0])
        state = self._questions.begin()
        found = answer()
        if self._questions.settle(key, found, state):
            self._memory[key] = found
        return found

    def asked(self, key: tuple[object, ...], answer: Callable[[], Answer], again: Answer) -> Answer:
        """As ``remembered``, of a question that may lead back to itself: there the answer is ``again``.

        What rests on that answer is kept where it comes out so. (A key begins with the question's kind.)
        """
        if key in self._memory:
            return cast("Answer", self._memory[key])
        questions = self._questions
        if lacking := questions.lacking(key):
            return cast("Answer", lacking[0])
        if questions.is_open(key):
            return again
        state = questions.begin(key)
        try:
            found = answer()
        finally:
            questions.end(key)
        if found == again:
            self._memory.update(questions.confirmed(key[0], state))
        if questions.settle(key, found, state):
            self._memory[key] = found
        return found

    def through_variables(self) -> list[tuple[cst.Call, Facts]]:
        """The calls of what variables hold, each with the functions and instances that it may be."""
        if self._variables is None:
            self._questions.rest_on_all()
        return self._variables or []

    def _gather(self) -> None:
        """Find those calls, before any other question is open: their answers would all be provisional."""
        state = self._questions.begin("gather")
        self._variables = list(handing.find_calls(self))
        self._questions.leave("gather", state)

    def guarded(self, key: object) -> Guard:
        """Marks a question as being asked; gives ``False`` where it is being asked already."""
        return Guard(self._questions, ("guard", key))


class Guard:
    """A question that is open while the block runs. (A generator would cost as much as most questions.)"""

    __slots__ = ("_key", "_questions", "_state")

    def __init__(self, questions: Questions, key: object) -> None:
        self._questions, self._key = questions, key

    def __enter__(self) -> bool:
        self._state = None if self._questions.is_open(self._key) else self._questions.begin(self._key)
        return self._state is not None

    def __exit__(self, *_: object) -> None:
        if self._state is not None:
            self._questions.leave(self._key, self._state)
