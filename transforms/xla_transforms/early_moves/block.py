"""Moves that go in front of the optimizer within one block of statements."""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.models import Move, key
from xla_transforms.plan import Planned, Render
from xla_transforms.tree import method, receiver, walk

HARMLESS = ("parameters", "named_parameters", "load_state_dict", "state_dict", "train", "eval", "zero_grad")
"""Methods of a model that do not ask where it is."""


class Block:
    """The statements of one block from the first reader of the parameters to the move."""

    def __init__(self, context: Context, body: list[cst.CSTNode], move: Move) -> None:
        self.context = context
        self.body = body
        self.move = move

    @classmethod
    def of(cls, context: Context, optimizer: cst.Call, read: cst.Call, move: Move) -> Block | None:
        nodes = (optimizer, read, move.call)
        if any(context.roles.index(n) is not context.index for n in nodes):
            return None
        line = context.index.statement_of(move.call)
        block = context.index.parent(line) if line is not None else None
        if not isinstance(block, (cst.IndentedBlock, cst.Module)) or line is None:
            return None
        body: list[cst.CSTNode] = list(block.body)
        places = [next((i for i, s in enumerate(body) if context.index.within(n, s)), None) for n in nodes]
        last = places[2]
        if None in places or last is None:
            return None
        first = min(p for p in places if p is not None)
        return cls(context, body[first : last + 1], move) if first < last else None

    def safe(self) -> bool:
        """Whether nothing between depends on where the model is, and the move needs nothing from between."""
        line = self.body[-1]
        simple = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
        plain = isinstance(self.move.small, (cst.Expr, cst.Assign)) and self.move.holder is not None
        if not simple or not plain or key(self.context.roles, self.move.model) is None or self._followed():
            return False
        indifferent = all(map(self._indifferent, self.body[:-1]))
        return indifferent and self._needs_nothing(line) and self._sees_device()

    def _needs_nothing(self, line: cst.CSTNode) -> bool:
        """Whether no name in the move is bound between."""
        index = self.context.index
        names = {n.value for n in walk(line) if isinstance(n, cst.Name)}
        bindings = [b for name in names for b in index.scope_of(line).bindings.get(name, ())]
        attributes = [b for name in names for b in index.attributes.get(name, ())]
        between = [b for b in (*bindings, *attributes) if b.statement is not self.move.small]
        return not any(index.within(b.statement, s) for b in between for s in self.body[:-1])

    def _indifferent(self, statement: cst.CSTNode) -> bool:
        """Whether a statement touches the model only in ways that do not ask where it is."""
        if not isinstance(statement, (cst.SimpleStatementLine, cst.If)):
            return False
        ours = key(self.context.roles, self.move.model)
        uses = [n for n in walk(statement) if isinstance(n, (cst.Name, cst.Attribute))]
        return all(self._harmless_use(n) for n in uses if key(self.context.roles, n) == ours)

    def _harmless_use(self, node: cst.CSTNode) -> bool:
        index = self.context.index
        child = node
        for parent in index.ancestors(node):
            if isinstance(parent, cst.Call):
                return child is parent.func and method(parent) in HARMLESS and receiver(parent) is not None
            if not isinstance(parent, cst.Attribute):
                return False
            child = parent
        return False

    def _sees_device(self) -> bool:
        """Whether the device that the move will name is bound above the region."""
        placing, first = self.context.placing, self.body[0]
        call = self.move.call
        wanted, there = placing.visible(call), placing.visible(first)
        if wanted is not None:
            return there is not None and there.text == wanted.text
        return not placing.introduced(call) or placing.introduced(first) or self._introduced_at_move()

    def _introduced_at_move(self) -> bool:
        """Whether the line that binds the new device variable stands right above the move."""
        source, line = self.context.index.source, self.body[-1]
        start = source.line_start(source.offsets(line)[0])
        return any(s.start == s.end == start and s.rank > 0 for s in self.context.plan.sites())

    def _with_comment(self, line: cst.CSTNode) -> int:
        """Where a line starts, the comment right above it included."""
        source = self.context.index.source
        start = source.line_start(self.context.plan.offsets(line)[0])
        while start and source.text[source.line_start(start - 1) : start].lstrip().startswith("#"):
            start = source.line_start(start - 1)
        return start

    def _followed(self) -> bool:
        """Whether something was inserted behind the move, which must come before the optimizer as well."""
        return followed(self.context, self.body[-1])

    def write(self, change: Planned) -> None:
        """Write the move in front of the others."""
        plan, source = self.context.plan, self.context.index.source
        first, line = self.body[0], self.body[-1]
        start = source.line_start(plan.offsets(first)[0])
        middle, end = self._with_comment(line), source.line_end(plan.offsets(line)[1])

        def write(render: Render) -> str:
            moved = render((middle, end))
            ended = moved.endswith(("\n", "\r"))
            return (moved if ended else moved + source.newline) + render((start, middle))

        change.replace_statements(first, line, write)


def followed(context: Context, line: cst.CSTNode) -> bool:
    """Whether something was inserted behind a line: ties of a model that was moved are made again there."""
    source = context.index.source
    end = source.line_end(source.offsets(line)[1])
    return any(s.start == s.end == end and s.rank <= 0 for s in context.plan.sites())
