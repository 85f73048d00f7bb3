"""The statements of one iteration, one by one, and what each has to do with values on the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from xla_transforms.loops import Loop, Loops
from xla_transforms.loops.reads import Reads
from xla_transforms.loops.sinks import Sinks, bound_names, stored_roots
from xla_transforms.roles import Kind
from xla_transforms.tree import LOOPS, children, number_value, walk


@dataclass(eq=False)
class Unit:
    """A statement of an iteration.

    ``whole`` tells that a compound statement counts with its blocks, else only its head does. ``guards``
    are the blocks under an ``if`` of the loop that it stands in, outermost first; ``behind`` that the
    iteration's explicit barrier has been passed. ``sink`` tells that it only shows or stores.
    """

    statement: cst.CSTNode
    block: cst.CSTNode
    guards: tuple[cst.CSTNode, ...]
    behind: bool
    whole: bool
    sink: bool
    reads: list[cst.BaseExpression]
    mentions: set[str]
    stores: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)


class Units:
    """Takes the body of a step loop apart."""

    def __init__(self, loops: Loops, loop: Loop, reads: Reads, sinks: Sinks) -> None:
        self.loops, self.loop, self.reads, self.sinks = loops, loop, reads, sinks
        self.index = loops.index
        self.candidates = self._candidates()
        self.found: list[Unit] = []
        self._collect(loop.node.body, (), self._behind())

    def _behind(self) -> set[cst.CSTNode]:
        """The statements of the loop's own block that the explicit barrier precedes."""
        anchor = self.loops.barrier_after(self.loop)
        own = self.loops.synchronized(self.loop)
        body = self.loop.body
        if own is not None:
            anchor = next((s for s in body if self.index.within(own, s)), None)
        if anchor is None:
            return set()
        position = next((i for i, s in enumerate(body) if s is anchor), len(body))
        return set(body[position + 1 :])

    def _candidates(self) -> set[str]:
        """Names that hold values read from the device, by the look of it."""
        found: set[str] = set()
        for node in walk(self.loop.node.body):
            if isinstance(node, (cst.Assign, cst.AugAssign)) and self.reads.any_within(node.value):
                found |= bound_names(node)
        return found

    def _collect(
        self,
        block: cst.CSTNode,
        guards: tuple[cst.CSTNode, ...],
        behind: set[cst.CSTNode],
        late: bool = False,
    ) -> None:
        for statement in lines_of(block):
            self._take(statement, block, guards, behind, late or statement in behind)

    def _take(
        self,
        statement: cst.CSTNode,
        block: cst.CSTNode,
        guards: tuple[cst.CSTNode, ...],
        behind: set[cst.CSTNode],
        late: bool,
    ) -> None:
        simple = isinstance(statement, cst.SimpleStatementLine)
        opaque = isinstance(statement, (cst.FunctionDef, cst.ClassDef)) or not isinstance(
            statement, cst.BaseStatement
        )
        step = isinstance(statement, LOOPS) and self.loops.effects.is_step_loop(statement)
        sink = not step and self.sinks.is_sink(statement)
        whole = simple or opaque or step or (sink and self._taken_whole(statement))
        unit = self._unit(statement, block, guards, late, whole=whole, sink=sink and whole)
        if step or opaque:
            unit.reads = []
        self.found.append(unit)
        if not whole:
            for inner, guarded in _blocks(statement):
                self._collect(inner, (*guards, inner) if guarded else guards, behind, late)

    def _taken_whole(self, statement: cst.CSTNode) -> bool:
        if isinstance(statement, cst.If):
            one_line = isinstance(statement.body, cst.SimpleStatementSuite)
            names = {n.value for n in walk(statement.test) if isinstance(n, cst.Name)}
            return one_line or self.reads.decides(statement) is not None or bool(names & self.candidates)
        return isinstance(statement, cst.For)

    def _unit(
        self,
        statement: cst.CSTNode,
        block: cst.CSTNode,
        guards: tuple[cst.CSTNode, ...],
        late: bool,
        *,
        whole: bool,
        sink: bool,
    ) -> Unit:
        parts = [statement] if whole else _head(statement)
        reads = [r for part in parts for r in self._reads(part, whole)]
        decided = self.reads.decides(statement)
        if (
            decided is not None
            and decided not in reads
            and not any(self.index.within(r, decided) for r in reads)
        ):
            reads.append(decided)
        mentions = {m for part in parts for m in self.mentions(part)}
        unit = Unit(statement, block, guards, late, whole, sink, reads, mentions)
        if whole:
            unit.stores = stored_roots(statement)
            unit.binds = bound_names(statement)
        return unit

    def _reads(self, part: cst.CSTNode, whole: bool) -> Iterator[cst.BaseExpression]:
        yield from self.reads.within(part)
        if whole:
            for inner in _suites(part):
                for statement in lines_of(inner):
                    yield from self._reads(statement, whole)

    def mentions(self, node: cst.CSTNode) -> Iterator[str]:
        """The roots that code uses: ``loss``, ``self.history``; names of comprehensions left out."""
        for part in walk(node):
            if isinstance(part, cst.Attribute) and getattr(part.value, "value", "") == "self":
                yield f"self.{part.attr.value}"
            elif isinstance(part, cst.Name) and part.value != "self" and self.is_use(part):
                yield part.value

    def is_use(self, name: cst.Name) -> bool:
        parent = self.index.parent(name)
        if isinstance(parent, cst.Attribute) and parent.attr is name:
            return False
        if isinstance(parent, cst.Arg) and parent.keyword is name:
            return False
        scope = self.index.scope_of(name)
        owner = scope.owner(name.value)
        return owner is None or isinstance(owner.node, (cst.Module, cst.FunctionDef))

    def root(self, node: cst.BaseExpression) -> str:
        """The root, as ``mentions`` gives it, of a name or of an attribute of ``self``."""
        return f"self.{node.attr.value}" if isinstance(node, cst.Attribute) else getattr(node, "value", "")

    def is_number(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a literal number, signed or not."""
        if isinstance(node, cst.UnaryOperation):
            node = node.expression
        return number_value(node) is not None

    def numbers_only(self, statement: cst.CSTNode) -> bool:
        """``a = b = 0`` or ``a, b = 0.0, 0``: nothing but literal numbers assigned to plain names."""
        if not isinstance(statement, cst.SimpleStatementLine):
            return False
        for small in statement.body:
            if not isinstance(small, cst.Assign):
                return False
            values = (
                [e.value for e in small.value.elements]
                if isinstance(small.value, cst.Tuple)
                else [small.value]
            )
            if not all(map(self.is_number, values)):
                return False
        return True

    def known_number(self, node: cst.CSTNode) -> bool:
        kinds = self.loops.roles.kinds(node)
        return bool(kinds) and kinds <= {Kind.NUMBER, Kind.BOOLEAN, Kind.STRING}


def lines_of(block: cst.CSTNode) -> list[cst.CSTNode]:
    """The statements of a block."""
    body = getattr(block, "body", ())
    return list(body) if isinstance(body, (tuple, list)) else []


def _suites(statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for child in children(statement):
        if isinstance(child, cst.BaseSuite):
            yield child
        elif isinstance(child, (cst.Else, cst.Finally, cst.ExceptHandler, cst.If)) and not isinstance(
            statement, cst.BaseSuite
        ):
            if isinstance(child, cst.If):
                yield from _suites(child)
            else:
                yield child.body


def _head(statement: cst.CSTNode) -> list[cst.CSTNode]:
    """What of a compound statement is evaluated outside its blocks, the conditions of ``elif`` included."""
    if isinstance(statement, cst.If):
        rest = _head(statement.orelse) if isinstance(statement.orelse, cst.If) else []
        return [statement.test, *rest]
    inner = (cst.BaseSuite, cst.Else, cst.Finally, cst.ExceptHandler)
    return [c for c in children(statement) if not isinstance(c, inner)]


def _blocks(statement: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, bool]]:
    """The blocks of a compound statement, each with whether a condition guards it."""
    if isinstance(statement, cst.If):
        yield statement.body, True
        if isinstance(statement.orelse, cst.If):
            yield from _blocks(statement.orelse)
        elif statement.orelse is not None:
            yield statement.orelse.body, True
        return
    for child in children(statement):
        if isinstance(child, cst.BaseSuite):
            yield child, False
        elif isinstance(child, (cst.Else, cst.Finally, cst.ExceptHandler)):
            yield child.body, False
