"""Which of a name's bindings can be the one that a use sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from xla_transforms.scopes import Binding, How, ModuleIndex, Scope
from xla_transforms.tree import body_of

_BLOCKS = (cst.IndentedBlock, cst.Module)


Fold = Callable[[cst.CSTNode], "bool | None"]


def reaching(
    index: ModuleIndex, use: cst.CSTNode, scope: Scope, bindings: list[Binding], fold: Fold
) -> list[Binding]:
    """The bindings that may reach ``use``, by walking backwards from it through its blocks.

    ``fold`` decides conditions where it can, so that a branch always taken counts as straight code.

    Exact for straight code; where a branch or a loop may or may not bind, both are kept. Uses from an
    inner function see all bindings.
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

    def back_from(self, use: cst.CSTNode) -> list[Binding]:
        statement: cst.CSTNode | None = self._line_of(use)
        while statement is not None:
            block = self.index.parent(statement)
            if isinstance(block, _BLOCKS):
                before = list(block.body)[: _position(block, statement)]
                if self._through(before):
                    return self.found
                parent = block if isinstance(block, cst.Module) else self.index.parent(block)
            else:
                parent = block
            if parent is None or parent is self.scope.node:
                break
            if self._leave(parent, use):
                return self.found
            statement = parent
        self._add(b for b in self.bindings if b.how is How.PARAMETER)
        return self.found or self.bindings

    def _line_of(self, use: cst.CSTNode) -> cst.CSTNode | None:
        return self.index.statement_of(use)

    def _add(self, bindings: object) -> None:
        for binding in bindings:  # type: ignore[attr-defined]
            if binding not in self.found:
                self.found.append(binding)

    def _inside(self, outer: cst.CSTNode) -> list[Binding]:
        return [b for b in self.bindings if self.index.within(b.statement, outer)]

    def _through(self, statements: Sequence[cst.CSTNode]) -> bool:
        """Walk a block backwards; true as soon as a statement surely binds."""
        for statement in reversed(statements):
            inside = self._inside(statement)
            if inside and self._binds(statement, inside):
                return True
        return False

    def _binds(self, statement: cst.CSTNode, inside: list[Binding]) -> bool:
        if isinstance(statement, (cst.SimpleStatementLine, cst.FunctionDef, cst.ClassDef)):
            last = inside[-1]
            self._add([last])
            return last.how is not How.AUGMENT
        if isinstance(statement, cst.With):
            if self._through(body_of(statement)):
                return True
            self._add(inside)
            return any(b.statement in statement.items for b in inside)
        if isinstance(statement, cst.If):
            return self._branches(statement)
        self._add(inside)
        return False

    def _branches(self, statement: cst.If) -> bool:
        taken = self.fold(statement.test)
        sure = taken is not False and self._through(body_of(statement))
        if taken:
            return sure
        other = statement.orelse
        if taken is False:
            sure = True
        if isinstance(other, cst.If):
            return self._branches(other) and sure
        return other is not None and self._through(body_of(other)) and sure

    def _leave(self, parent: cst.CSTNode, use: cst.CSTNode) -> bool:
        """Climb out of ``parent``; true where its head binds the name for its body."""
        if isinstance(parent, (cst.For, cst.While)) and self.index.within(use, parent.body):
            head = [b for b in self.bindings if b.statement is parent]
            self._add(head or self._inside(parent))
            return bool(head)
        if isinstance(parent, cst.With) and self.index.within(use, parent.body):
            head = [b for b in self.bindings if b.statement in parent.items]
            self._add(head)
            return bool(head)
        return False


def _position(block: cst.CSTNode, statement: cst.CSTNode) -> int:
    body = block.body  # type: ignore[attr-defined]
    return next((i for i, item in enumerate(body) if item is statement), 0)


