"""Taking ``if`` and ``with`` statements apart: one way stays, dedented, the rest goes."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.plan import Planned, Render
from xla_transforms.tree import body_of, walk


class Branches:
    """Rewrites compound statements of one module."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.plan = context.plan
        self.source = context.index.source

    def decide(self, rule: Rule, guard: cst.If, value: bool) -> None:
        """Keep the way of an ``if`` or ``elif`` that its condition's value takes."""
        if self.plan.taken(guard):
            return
        change = self.plan.change(rule, guard, "the branch that was taken on CUDA is taken")
        if self._is_elif(guard):
            self._decide_elif(change, guard, value)
        elif value:
            self._keep(change, guard, guard.body, "True")
        elif isinstance(guard.orelse, cst.Else):
            self._keep(change, guard, guard.orelse.body, "False")
        elif isinstance(guard.orelse, cst.If) and self.pointless(guard.orelse):
            change.remove(guard)
        elif isinstance(guard.orelse, cst.If):
            change.cut(self.source.offsets(guard)[0], self.source.offsets(guard.orelse)[0] + len("el"))
        else:
            change.remove(guard)

    def _is_elif(self, guard: cst.If) -> bool:
        above = self.context.index.parent(guard)
        return isinstance(above, cst.If) and above.orelse is guard

    def _decide_elif(self, change: Planned, guard: cst.If, value: bool) -> None:
        start = self.source.offsets(guard)[0]
        if value:
            change.cut(start, self.plan.bracketed(guard.test)[1], "else")
            if guard.orelse is not None:
                self._cut_way(change, guard.orelse)
        elif guard.orelse is None:
            self._cut_way(change, guard)
        else:
            change.cut(start, self.source.offsets(guard.orelse)[0])

    def _cut_way(self, change: Planned, way: cst.If | cst.Else) -> None:
        start, end = self.source.offsets(way)
        change.cut(self.source.line_start(start), self.source.line_end(end))

    def _keep(self, change: Planned, guard: cst.If, block: cst.BaseSuite, word: str) -> None:
        """The block in the place of its ``if``; where its lines cannot move, the condition's bare value."""
        if not self.keep_block(change, guard, block):
            change.wrap(guard.test, word, brackets=True)

    def keep_block(
        self, change: Planned, statement: cst.If | cst.With, block: cst.BaseSuite
    ) -> bool:
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

    def _comments(
        self, statement: cst.CSTNode, block: cst.IndentedBlock, inner: str
    ) -> tuple[str, str]:
        """The comment behind the head, and those below the block's last statement, as lines."""
        head = block.header.comment
        above = f"{inner}{head.value}{self.source.newline}" if head is not None else ""
        end = self.source.line_end(self.source.offsets(block.body[-1])[1])
        last = self.source.offsets(block.footer[-1])[1] if block.footer else end
        inside = last <= self.source.offsets(statement)[1]
        return above, self.source.text[end:last] if inside else ""

    def _grows(self, statement: cst.CSTNode, inner: str) -> bool:
        """Whether a line is to come below the block's last one, at the block's indentation."""
        end = self.source.line_end(self.source.offsets(statement)[1])
        added = [s.write(self.source.code) for s in self.plan.sites() if s.start == s.end == end]
        return any(text.startswith(inner) for text in added)

    def _spans_lines(self, node: cst.CSTNode) -> bool:
        if not isinstance(node, (cst.SimpleString, cst.FormattedString)):
            return False
        return any(c in self.source.code(node) for c in "\n\r")

    def pointless(self, guard: cst.If) -> bool:
        """Whether nothing is left of the only way of an ``if``, and asking its condition changes nothing."""
        block = guard.body
        emptied = isinstance(block, cst.IndentedBlock) and self.emptied_block(block)
        return guard.orelse is None and emptied and self._harmless(guard.test)

    def drop(self, change: Planned, guard: cst.If) -> None:
        """Take out an ``if``, or the ``elif`` that ends one."""
        if self._is_elif(guard):
            self._cut_way(change, guard)
        else:
            change.remove(guard)

    def emptied_block(self, block: cst.IndentedBlock) -> bool:
        """Whether the plan takes out all statements of a block and puts nothing in."""
        sites = self.plan.sites()
        gone = {s.removes for s in sites if s.removes is not None}
        lines = body_of(block)
        if not all(self._gone(line, gone) for line in lines):
            return False
        first = self.source.line_start(self.source.offsets(block.body[0])[0])
        last = self.source.line_end(self.source.offsets(block.body[-1])[1])
        return not any(s.start == s.end and first <= s.start <= last for s in sites)

    def _gone(self, line: cst.CSTNode, gone: set[cst.CSTNode]) -> bool:
        if line in gone:
            return True
        return isinstance(line, cst.SimpleStatementLine) and all(s in gone for s in line.body)

    def _harmless(self, test: cst.BaseExpression) -> bool:
        """Whether asking a condition changes nothing: no call but those that only look."""
        calls = [n for n in walk(test) if isinstance(n, cst.Call)]
        return all(self.context.roles.path(c.func).startswith(("torch.", "builtins.")) for c in calls)
