"""Which of a name's bindings can be the one that a use sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import libcst as cst

from xla_transforms.scopes import Binding, How, ModuleIndex, Scope
from xla_transforms.tree import body_of

# Types are compared exactly: these questions are put to every node between a use and its function.
_BLOCKS = {cst.IndentedBlock, cst.SimpleStatementSuite, cst.SimpleStatementLine, cst.Module}
_TRIES = {cst.Try, cst.TryStar}
_HANDLERS = {cst.ExceptHandler, cst.ExceptStarHandler}
_LOOPS = {cst.For, cst.While}
_LEAVING = {cst.Return, cst.Raise, cst.Break, cst.Continue}

Fold = Callable[[cst.CSTNode], "bool | None"]


def reaching(
    index: ModuleIndex, use: cst.CSTNode, scope: Scope, bindings: list[Binding], fold: Fold
) -> list[Binding]:
    """The bindings that may reach ``use``, by walking backwards from it through its blocks.

    ``fold`` decides conditions where it can, so that a branch always taken counts as straight code.

    Exact for straight code; where a branch or a loop may or may not bind, both are kept. Uses from an
    inner function see all bindings, and bindings made in one (``global``) may come at any time.
    """
    if len(bindings) < 2 or index.scope_of(use) is not scope:
        return bindings
    return _Walk(index, scope, bindings, fold).back_from(use)


class _Walk:
    def __init__(
        self, index: ModuleIndex, scope: Scope, bindings: list[Binding], fold: Fold
    ) -> None:
        self.fold = fold
        self.index = index
        self.scope = scope
        self.bindings = bindings
        self.found: list[Binding] = []
        self._around = index.around(scope, bindings)
        if len(self._around) < len(bindings):
            self._add(b for b in bindings if index.scope_of(b.node) is not scope)

    def back_from(self, use: cst.CSTNode) -> list[Binding]:
        child = use
        while child is not self.scope.node:
            parent = self.index.parent(child)
            if parent is None:
                break
            if type(parent) in _BLOCKS:
                sure = self._through(_before(parent.body, child))  # type: ignore[attr-defined]
            else:
                sure = self._leave(parent, child)
            if sure:
                return self.found
            child = parent
        self._add(b for b in self.bindings if b.how is How.PARAMETER)
        return self.found or self.bindings

    def _add(self, bindings: Iterable[Binding]) -> None:
        for binding in bindings:
            if binding not in self.found:
                self.found.append(binding)

    def _inside(self, outer: cst.CSTNode) -> list[Binding]:
        key = id(outer)
        return [b for b, around in self._around if key in around]

    def _through(self, statements: Sequence[cst.CSTNode]) -> bool:
        """Walk a block backwards; true as soon as a statement surely binds."""
        for statement in reversed(statements):
            inside = self._inside(statement)
            if inside and self._binds(statement, inside):
                return True
        return False

    def _way(self, block: cst.CSTNode) -> bool:
        """The same for one way of several, where a way that leaves (by ``return``) reaches nothing."""
        return _exits(block) or self._through(body_of(block))

    def _binds(self, statement: cst.CSTNode, inside: list[Binding]) -> bool:
        kind = type(statement)
        if kind is cst.SimpleStatementLine:
            return self._through(statement.body)  # type: ignore[attr-defined]
        if isinstance(statement, cst.With):
            if self._through(body_of(statement)):
                return True
            self._add(inside)
            return any(b.statement in statement.items for b in inside)
        if isinstance(statement, cst.If):
            return self._branches(statement) or self._head(self._inside(statement.test))
        if isinstance(statement, (cst.Try, cst.TryStar)):
            return self._tried(statement)
        if kind in _LOOPS or kind is cst.Match:
            self._add(inside)
            return False
        self._add(inside[-1:])
        return inside[-1].how is not How.AUGMENT

    def _branches(self, statement: cst.If) -> bool:
        taken = self.fold(statement.test)
        sure = taken is False or self._way(statement)
        if taken:
            return sure
        other = statement.orelse
        if isinstance(other, cst.If):
            return self._branches(other) and sure
        return other is not None and self._way(other) and sure

    def _tried(self, statement: cst.Try | cst.TryStar) -> bool:
        """The tried block may stop anywhere; what it bound until then the handlers hand on."""
        if statement.finalbody is not None and self._through(body_of(statement.finalbody)):
            return True
        after = statement.orelse
        sure = (after is not None and self._through(body_of(after))) or self._through(body_of(statement))
        for handler in statement.handlers:
            if not self._way(handler):
                self._add(self._inside(statement.body))
                sure = False
        return sure

    def _leave(self, parent: cst.CSTNode, child: cst.CSTNode) -> bool:
        """Climb from ``child`` out of ``parent``; true where its head surely binds the name for ``child``."""
        kind = type(parent)
        if kind in _LOOPS:
            return self._leave_loop(parent, child)  # type: ignore[arg-type]
        if kind in _TRIES:
            return self._leave_try(parent, child)  # type: ignore[arg-type]
        if kind is cst.With:
            return self._leave_with(parent, child)  # type: ignore[arg-type]
        if kind in _HANDLERS:
            return self._head([b for b in self.bindings if b.statement is parent])
        first = _evaluated_first(parent)
        return first is not None and child is not first and self._head(self._inside(first))

    def _leave_with(self, parent: cst.With, child: cst.CSTNode) -> bool:
        items = parent.items if child is parent.body else _before(parent.items, child)
        return self._head([b for item in items for b in self._inside(item)])

    def _head(self, bindings: list[Binding]) -> bool:
        self._add(bindings)
        return bool(bindings)

    def _leave_loop(self, loop: cst.For | cst.While, child: cst.CSTNode) -> bool:
        if isinstance(loop, cst.For) and child is loop.iter:
            return False
        head = [b for b in self.bindings if b.statement is loop]
        if isinstance(loop, cst.While) and child is not loop.test:
            head = self._inside(loop.test)
        if child is loop.orelse:
            self._add([*head, *self._inside(loop.body)])
            return False
        self._add(head or self._inside(loop))
        return bool(head)

    def _leave_try(self, statement: cst.Try | cst.TryStar, child: cst.CSTNode) -> bool:
        if child is statement.body:
            return False
        if child is statement.orelse:
            return self._through(body_of(statement))
        self._add(self._inside(statement.body))
        if child is statement.finalbody:
            self._add(self._inside(statement))
        return False


def _before(items: Sequence[cst.CSTNode], item: cst.CSTNode) -> Sequence[cst.CSTNode]:
    return items[: next((i for i, one in enumerate(items) if one is item), 0)]


def _evaluated_first(node: cst.CSTNode) -> cst.CSTNode | None:
    """What binds before the rest of a node runs: a condition with ``:=``, a pattern."""
    if type(node) is cst.If or type(node) is cst.IfExp:
        return node.test
    if type(node) is cst.BooleanOperation:
        return node.left
    return node.pattern if type(node) is cst.MatchCase else None


def _exits(block: cst.CSTNode) -> bool:
    """Whether a block surely ends in ``return``, ``raise``, ``break`` or ``continue``."""
    for statement in body_of(block):
        smalls = statement.body if type(statement) is cst.SimpleStatementLine else [statement]
        if any(type(s) in _LEAVING for s in smalls):
            return True
        if type(statement) is cst.If and _both_exit(statement):
            return True
    return False


def _both_exit(statement: cst.If) -> bool:
    other = statement.orelse
    if other is None or not _exits(statement):
        return False
    return _both_exit(other) if isinstance(other, cst.If) else _exits(other)
