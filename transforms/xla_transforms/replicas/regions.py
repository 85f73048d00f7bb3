"""What of the master's statements all replicas run, for a save among them, and what stays the master's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.loops.sinks import bound_names, stored_roots
from xla_transforms.replicas.masters import Master
from xla_transforms.scopes import ModuleIndex
from xla_transforms.tree import CODE_OF_ITS_OWN, LOOPS, body_of, children, walk

if TYPE_CHECKING:
    from xla_transforms.replicas.alone import Alone

_LEAVING = (cst.Return, cst.Break, cst.Continue)


@dataclass(eq=False)
class Region:
    """Statements that only the master reached.

    ``node`` is the ``if`` that keeps the others away (``leaves`` where they leave by it), or the function
    that only the master called. ``runs`` are neighbouring statements that stay the master's, ``decisions``
    the conditions that all replicas must answer alike. ``obstacle`` tells why the region cannot be opened,
    ``place`` where.
    """

    node: cst.If | cst.FunctionDef
    statements: Sequence[cst.CSTNode]
    master: Master
    leaves: bool = False
    runs: list[list[cst.CSTNode]] = field(default_factory=list)
    decisions: list[cst.BaseExpression] = field(default_factory=list)
    obstacle: str = ""
    place: cst.CSTNode | None = None

    @property
    def rest(self) -> tuple[cst.BaseExpression, ...]:
        """What a guard asks besides."""
        return self.master.rest

    @property
    def block(self) -> bool:
        """Whether the region is the block of a guard."""
        return isinstance(self.node, cst.If) and not self.leaves


class Split:
    """Tells what of a region all replicas run from what stays the master's."""

    def __init__(
        self, alone: Alone, region: Region, shared: frozenset[cst.Call], lines: Collection[cst.CSTNode]
    ) -> None:
        self.alone, self.region, self.shared, self.lines = alone, region, shared, lines

    def block(self, statements: Sequence[cst.CSTNode], needed: set[str]) -> None:
        """Go through the statements of a block from the last one, with what those behind need."""
        run: list[cst.CSTNode] = []
        for statement in reversed(statements):
            if self._for_all(statement, needed):
                self._close(run)
                run = []
                self._share(statement, needed)
            else:
                run.insert(0, statement)
        self._close(run)

    def _close(self, run: list[cst.CSTNode]) -> None:
        if run:
            self.region.runs.append(run)

    def _for_all(self, statement: cst.CSTNode, needed: set[str]) -> bool:
        if self._joins(statement) or _is_text(statement):
            return True
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            return statement.name.value in needed
        made = bound_names(statement) | stored_roots(statement) | _imported(statement)
        if exits(self.alone.roles.index(statement), statement):
            return True
        return bool(made & needed) or any(root.startswith("self.") for root in made)

    def _joins(self, statement: cst.CSTNode) -> bool:
        if any(node in self.lines for node in walk(statement)):
            return True
        return any(
            isinstance(n, cst.Call) and n in self.shared for n in walk(statement, into_functions=False)
        )

    def _share(self, statement: cst.CSTNode, needed: set[str]) -> None:
        """All replicas run a statement: of a compound one the head, of its blocks what they must."""
        needed |= set(mentions(statement)) - (bound_names(statement) if _is_assign(statement) else set())
        if statement in self.lines:
            return
        if isinstance(statement, cst.If) and self.alone.keeps(statement):
            return
        compound = isinstance(statement, (cst.If, cst.For, cst.While, cst.Try, cst.With))
        if not compound or not self._joins(statement):
            self._leave(statement)
            self.alone.check(self.region, statement, self.shared)
            return
        if isinstance(statement, cst.If):
            self.region.decisions += _tests(statement)
        for part in _heads(statement):
            self.alone.check(self.region, part, self.shared)
        for block in _blocks(statement):
            self.block(body_of(block), needed)

    def _leave(self, statement: cst.CSTNode) -> None:
        """In the block of a guard an exit was the master's alone: the others would take it, too."""
        if isinstance(self.region.node, cst.FunctionDef):
            return
        leaving = exits(self.alone.roles.index(statement), statement)
        others = [e for e in leaving if not self._as_before(e)]
        if others:
            obstruct(self.region, others[0], "the master leaves here, the other replicas go on")

    def _as_before(self, leave: cst.CSTNode) -> bool:
        """Whether the other replicas left in this way before the region began."""
        before = [n for n in walk(self.region.node.body) if isinstance(n, (cst.Return, cst.Continue))]
        bare = not isinstance(leave, cst.Return) or gives_none(leave)
        return self.region.leaves and bare and type(before[0]) is type(leave)


def exits(index: ModuleIndex, statement: cst.CSTNode) -> list[cst.CSTNode]:
    """The statements that leave a statement by another way than its end, the last one first."""
    if type(statement) in CODE_OF_ITS_OWN:
        return []
    found: list[cst.CSTNode] = []
    looped = -1  # the last node of the loops so far
    for node in index.own(statement, *_LEAVING, *LOOPS):
        if type(node) in LOOPS:
            looped = max(looped, index.last(node))
        elif type(node) is cst.Return or index.number(node) > looped:
            found.append(node)
    return found[::-1]


def gives_none(leave: cst.Return) -> bool:
    return leave.value is None or getattr(leave.value, "value", "") == "None"


def obstruct(region: Region, place: cst.CSTNode, reason: str) -> None:
    if not region.obstacle:
        region.obstacle, region.place = reason, place


def _is_assign(statement: cst.CSTNode) -> bool:
    smalls = body_of(statement) if isinstance(statement, cst.SimpleStatementLine) else []
    return bool(smalls) and all(isinstance(s, (cst.Assign, cst.AnnAssign)) for s in smalls)


def _is_text(statement: cst.CSTNode) -> bool:
    smalls = body_of(statement) if isinstance(statement, cst.SimpleStatementLine) else []
    texts = (cst.SimpleString, cst.ConcatenatedString)
    return bool(smalls) and all(isinstance(s, cst.Expr) and isinstance(s.value, texts) for s in smalls)


def _imported(statement: cst.CSTNode) -> set[str]:
    found = set()
    for node in walk(statement, into_functions=False):
        if isinstance(node, cst.ImportAlias):
            named = node.asname.name if node.asname is not None else node.name
            found.add(named.value if isinstance(named, cst.Name) else node.evaluated_name.split(".")[0])
    return found


def _tests(statement: cst.If) -> list[cst.BaseExpression]:
    """The conditions of an ``if`` and of its ``elif``."""
    rest = _tests(statement.orelse) if isinstance(statement.orelse, cst.If) else []
    return [statement.test, *rest]


def _heads(statement: cst.CSTNode) -> list[cst.CSTNode]:
    """What of a compound statement is not a block."""
    if isinstance(statement, cst.If):
        return [*_tests(statement)]
    ways = (cst.BaseSuite, cst.Else, cst.Finally, cst.ExceptHandler)
    return [c for c in children(statement) if not isinstance(c, ways)]


def _blocks(statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The parts of a compound statement that have a block of their own, the statement itself included."""
    yield statement
    for part in children(statement):
        if isinstance(part, (cst.If, cst.Else, cst.Finally, cst.ExceptHandler)):
            yield from _blocks(part)


def mentions(node: cst.CSTNode) -> Iterator[str]:
    """The names and attributes of ``self`` that code uses."""
    for part in walk(node):
        if isinstance(part, cst.Attribute) and getattr(part.value, "value", "") == "self":
            yield f"self.{part.attr.value}"
        elif isinstance(part, cst.Name) and part.value != "self":
            yield part.value


def carried(statements: Sequence[cst.CSTNode]) -> set[str]:
    """The names that statements read before they bind them: in a loop they have them from the time before."""
    found: set[str] = set()
    bound: set[str] = set()
    for statement in statements:
        found |= set(_reads(statement)) - bound
        bound |= bound_names(statement)
    return found


def _reads(statement: cst.CSTNode) -> Iterator[str]:
    smalls = body_of(statement) if _is_assign(statement) else [statement]
    for small in smalls:
        value = small.value if isinstance(small, (cst.Assign, cst.AnnAssign)) else small
        yield from mentions(value) if value is not None else ()
