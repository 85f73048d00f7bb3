"""Taking ``if`` and ``with`` statements apart: one way stays, dedented, the rest goes."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from xla_transforms.cleanup import removable
from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.plan import Piece, Planned, Render
from xla_transforms.scopes import How
from xla_transforms.tree import body_of, walk

# What changes a function by being in it, reached or not.
_DEFINES = (cst.Yield, cst.Global, cst.Nonlocal, cst.FunctionDef, cst.ClassDef, cst.Import, cst.ImportFrom)


class Branches:
    """Rewrites compound statements of one module."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.plan = context.plan
        self.source = context.index.source

    def decide(
        self,
        rule: Rule,
        head: cst.If,
        value: Callable[[cst.CSTNode], bool | None],
        message: str = "the branch that was taken on CUDA is taken",
    ) -> None:
        """Keep the ways of an ``if`` that its conditions' values leave open, or the one that they take."""
        ways = self.ways(head)
        kept = self._kept(ways, value)
        change = self.plan.change(rule, head, message)
        if not kept:
            change.remove(head)
        elif isinstance(kept[0], cst.Else) or value(kept[0].test) is True:
            if self.keep_block(change, head, kept[0].body):
                self._drop_unreached(change, head, kept[0].body)
            else:
                self._spell_out(change, head, kept[0])
        else:
            self._rejoin(change, ways, kept, value)

    def _drop_unreached(self, change: Planned, head: cst.If, block: cst.BaseSuite) -> None:
        """Take out what stands behind a block that always leaves: ``return device``, then ``return cpu``."""
        outer = self.context.index.parent(head)
        if not isinstance(outer, cst.IndentedBlock) or not _leaves(block):
            return
        position = next(i for i, line in enumerate(outer.body) if line is head)
        behind = outer.body[position + 1 :]
        inside = [node for line in behind for node in walk(line)]
        if not any(isinstance(n, _DEFINES) or self.plan.claims(n) for n in inside):
            for line in behind:
                change.remove(line)

    def ways(self, head: cst.If) -> list[cst.If | cst.Else]:
        """An ``if``, the ``elif`` below it, and the ``else``."""
        found: list[cst.If | cst.Else] = [head]
        while isinstance(found[-1], cst.If) and found[-1].orelse is not None:
            found.append(found[-1].orelse)
        return found

    def _kept(
        self, ways: list[cst.If | cst.Else], value: Callable[[cst.CSTNode], bool | None]
    ) -> list[cst.If | cst.Else]:
        kept: list[cst.If | cst.Else] = []
        for way in ways:
            verdict = True if isinstance(way, cst.Else) else value(way.test)
            if verdict is not False:
                kept.append(way)
            if verdict:
                break
        while kept and isinstance(kept[-1], cst.If) and value(kept[-1].test) is None and self._idle(kept[-1]):
            kept.pop()
        return kept

    def _spell_out(self, change: Planned, head: cst.If, kept: cst.If | cst.Else) -> None:
        """The conditions' bare values, where the lines of the way to keep cannot move."""
        for way in self.ways(head):
            if isinstance(way, cst.If):
                change.wrap(way.test, str(way is kept), brackets=True)

    def _rejoin(
        self,
        change: Planned,
        ways: list[cst.If | cst.Else],
        kept: list[cst.If | cst.Else],
        value: Callable[[cst.CSTNode], bool | None],
    ) -> None:
        """Cut out the ways that are not kept, and make good the heads of those behind them."""
        start, end = self.source.offsets(ways[0])[0], self.source.lines_end(ways[0])
        places = [self.source.offsets(way)[0] for way in kept]
        if kept[0] is not ways[0]:
            change.cut(start, places[0] + len("el"))
        for way, following in zip(kept, [*places[1:], None], strict=True):
            after = ways[ways.index(way) + 1 :]
            if after and following is None:
                change.cut(self.source.line_start(self.source.offsets(after[0])[0]), end)
            elif after and self.source.offsets(after[0])[0] != following:
                change.cut(self.source.offsets(after[0])[0], following or end)
        last = kept[-1]
        if isinstance(last, cst.If) and value(last.test) is True:
            change.cut(places[-1], self.plan.bracketed(last.test)[1], "else")

    def _is_elif(self, guard: cst.If) -> bool:
        above = self.context.index.parent(guard)
        return isinstance(above, cst.If) and above.orelse is guard

    def keep_block(self, change: Planned, statement: cst.If | cst.With, block: cst.BaseSuite) -> bool:
        """Write a statement's block in its place; ``False`` where its lines cannot be moved."""
        outer = self.plan.indentation(statement)
        if isinstance(block, cst.SimpleStatementSuite):
            change.replace_statements(statement, statement, self._one_line(block, outer))
            return True
        assert isinstance(block, cst.IndentedBlock)
        if self.emptied_block(block):
            change.remove(statement)
            return True
        inner = self.plan.indentation(block.body[0])
        if any(self._spans_lines(node) for node in walk(block)) or self._grows(statement, inner):
            return False
        comments = self._comments(statement, block, inner)

        def write(render: Render) -> str:
            return "".join(
                outer + line[len(inner) :] if line.startswith(inner) else line
                for line in (comments[0] + render(block) + comments[1]).splitlines(keepends=True)
            )

        change.replace_statements(statement, statement, write)
        return True

    def _one_line(self, block: cst.SimpleStatementSuite, outer: str) -> Callable[[Render], str]:
        smalls, newline = block.body, self.source.newline
        rest = block.trailing_whitespace.comment
        tail = f"  {rest.value}" if rest is not None else ""
        return lambda render: outer + "; ".join(render(s) for s in smalls) + tail + newline

    def _comments(self, statement: cst.CSTNode, block: cst.IndentedBlock, inner: str) -> tuple[str, str]:
        """The comment behind the head, and those below the block's last statement, as lines."""
        head = block.header.comment
        above = f"{inner}{head.value}{self.source.newline}" if head is not None else ""
        end = self.source.line_end(self.source.offsets(block.body[-1])[1])
        outer = self.plan.indentation(statement)
        last = self.source.comments_end(end, len(outer.expandtabs()))
        lines = self.source.text[end:last].splitlines(keepends=True)
        return above, "".join(
            line if line.startswith(inner) or not line.strip() else inner + line.lstrip() for line in lines
        )

    def _grows(self, statement: cst.CSTNode, inner: str) -> bool:
        """Whether a line is to come below the block's last one, at the block's indentation."""
        end = self.source.line_end(self.source.offsets(statement)[1])
        added = [s.write(self._original) for s in self.plan.sites() if s.start == s.end == end]
        return any(text.startswith(inner) for text in added)

    def _original(self, piece: Piece) -> str:
        start, end = piece if isinstance(piece, tuple) else self.source.offsets(piece)
        return self.source.text[start:end]

    def _spans_lines(self, node: cst.CSTNode) -> bool:
        if not isinstance(node, (cst.SimpleString, cst.FormattedString)):
            return False
        return any(c in self.source.code(node) for c in "\n\r")

    def pointless(self, guard: cst.If) -> bool:
        """Whether nothing is left of any way of an ``if``, and asking its conditions changes nothing."""
        rest = guard.orelse
        if isinstance(rest, cst.If):
            return self.pointless(rest) and self._idle(guard)
        block = rest.body if rest is not None else None
        emptied = rest is None or (isinstance(block, cst.IndentedBlock) and self.emptied_block(block))
        return emptied and self._idle(guard)

    def _idle(self, guard: cst.If) -> bool:
        block = guard.body
        emptied = isinstance(block, cst.IndentedBlock) and self.emptied_block(block)
        return emptied and self._harmless(guard.test)

    def drop(self, change: Planned, guard: cst.If) -> None:
        """Take out an ``if``, or the ``elif`` that ends one."""
        if self._is_elif(guard):
            start = self.source.offsets(guard)[0]
            change.cut(self.source.line_start(start), self.source.lines_end(guard))
        else:
            change.remove(guard)

    def head(self, guard: cst.If) -> cst.If:
        """The ``if`` that an ``elif`` belongs to."""
        above = self.context.index.parent(guard)
        return self.head(above) if isinstance(above, cst.If) and above.orelse is guard else guard

    def emptied_block(self, block: cst.IndentedBlock) -> bool:
        """Whether the plan takes out all statements of a block and puts nothing in."""
        sites = self.plan.sites()
        gone = {s.removes for s in sites if s.removes is not None}
        lines = body_of(block)
        if not all(self._gone(line, gone) for line in lines):
            return False
        first = self.source.line_start(self.source.offsets(block.body[0])[0])
        last = self.source.line_end(self.source.offsets(block.body[-1])[1])
        return not any(s.start == s.end and first <= s.start < last for s in sites) and not self._grows(
            block.body[-1], self.plan.indentation(block.body[0])
        )

    def _gone(self, line: cst.CSTNode, gone: set[cst.CSTNode]) -> bool:
        if line in gone:
            return True
        smalls = line.body if isinstance(line, cst.SimpleStatementLine) else ()
        return bool(smalls) and all(small in gone or self._spent(small) for small in smalls)

    def _spent(self, small: cst.CSTNode) -> bool:
        """Whether an import brings names of CUDA alone that nothing reads any more: it goes in the end."""
        if not isinstance(small, (cst.Import, cst.ImportFrom)):
            return False
        index = self.context.index
        bound = [(name, b) for s in index.scopes.values() for name, bs in s.bindings.items() for b in bs]
        ours = [(name, b.name) for name, b in bound if b.how is How.IMPORT and b.statement is small]
        uses = [n for name, _ in ours for n in index.named(name) if not index.within(n, small)]
        return bool(uses) and all(removable(path) for _, path in ours) and all(map(self.plan.taken, uses))

    def _harmless(self, test: cst.BaseExpression) -> bool:
        """Whether asking a condition changes nothing: no call but those that only look."""
        calls = [n for n in walk(test) if isinstance(n, cst.Call)]
        return all(self.context.roles.path(c.func).startswith(("torch.", "builtins.")) for c in calls)


def _leaves(block: cst.BaseSuite) -> bool:
    """Whether nothing runs behind a block: it ends by returning, raising or going to another iteration."""
    last = body_of(block)[-1] if not isinstance(block, cst.IndentedBlock) else block.body[-1]
    smalls = body_of(last) if isinstance(last, cst.SimpleStatementLine) else [last]
    return bool(smalls) and isinstance(smalls[-1], (cst.Return, cst.Raise, cst.Continue, cst.Break))
