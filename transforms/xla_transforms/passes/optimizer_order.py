"""Optimizers that are built before their model is moved to the device.

CUDA does not mind; on XLA such an optimizer keeps the parameters that were left on the CPU and trains
nothing, without an error. The move is put in front of the optimizer where that is safe; elsewhere one line
lets moves keep the parameters' identity. Sources: pytorch/xla#1623; pytorch v2.9,
``torch/__future__.py``, ``set_swap_module_params_on_conversion``.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.models import (
    Move,
    comes_before,
    keep_identity,
    key,
    moves,
    parameters_taken,
    returns_to_host,
    same_model,
)
from xla_transforms.plan import Render
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.facts import of_kind
from xla_transforms.tree import method, receiver, walk

REORDERED = Rule(
    "XLA411",
    "model-moved-first",
    "The model is moved to the device before its optimizer is built.",
    "On XLA a move makes new parameters; an optimizer built before would train the old ones.",
)
BEFORE = Rule(
    "XLA412",
    "optimizer-before-device",
    "An optimizer is built before its model is moved, and the move cannot be put in front of it.",
    "On XLA a move makes new parameters; the optimizer would train the old ones (pytorch/xla#1623). "
    "set_swap_module_params_on_conversion lets the move keep them.",
    Severity.ERROR,
)
ROUND_TRIP = Rule(
    "XLA413",
    "model-to-host-and-back",
    "A model goes to the CPU and back after its optimizer is built.",
    "On XLA each move makes new parameters; the optimizer goes on with the old ones and trains nothing.",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (REORDERED, BEFORE, ROUND_TRIP)

_COPY = "leave it on the device and copy: {k: v.cpu() for k, v in model.state_dict().items()}"
_HARMLESS = ("parameters", "named_parameters", "load_state_dict", "state_dict", "train", "eval", "zero_grad")


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    every = moves(context.roles)
    optimizers = context.once(_built) if every else []
    written: set[cst.CSTNode] = set()
    for move in every:
        if context.roles.index(move.call) is not context.index:
            continue
        for optimizer in optimizers:
            taken = _taken_too_early(context, optimizer, move, every)
            if taken is not None:
                _mend(context, optimizer, taken, move, written)
                break
    for away in returns_to_host(context.roles) if optimizers else ():
        if context.roles.index(away.call) is context.index and not context.plan.taken(away.call):
            _round_trip(context, away, every, optimizers)


def _built(context: Context) -> list[cst.Call]:
    """The calls that build an optimizer, in all modules of the program."""
    found = []
    for index in context.program.modules.values():
        for call in index.all(cst.Call):
            assert isinstance(call, cst.Call)
            facts = of_kind(context.roles.facts(call), Kind.OPTIMIZER) if call.args else ()
            own_class = any(isinstance(f.node, cst.ClassDef) for f in facts)
            if any(f.node is call for f in facts) or (own_class and _makes(context, call)):
                found.append(call)
    return found


def _makes(context: Context, call: cst.Call) -> bool:
    return any(f.kind is Kind.CLASS for f in context.roles.facts(call.func))


def _taken_too_early(
    context: Context, optimizer: cst.Call, move: Move, every: Sequence[Move]
) -> cst.Call | None:
    """The call that gives an optimizer the parameters of a model that moves only later."""
    roles = context.roles
    for model, read in parameters_taken(roles, optimizer).items():
        if not same_model(roles, model, move) or not _runs_before(roles, read, move.call):
            continue
        others = [m for m in every if m is not move and same_model(roles, model, m)]
        if not any(_runs_before(roles, m.call, n) for m in others for n in (read, move.call)):
            return read
    return None


def _runs_before(roles: Roles, one: cst.Call, other: cst.Call) -> bool:
    """Whether a call surely runs before another; a constructor runs before the other methods."""
    known = comes_before(roles, one, other)
    if known is not None:
        return known
    first, second = (roles.index(n).function_of(n) for n in (one, other))
    in_constructor = first is not None and first.name.value == "__init__" and first is not second
    owner, other_owner = (roles.index(n).class_of(n) for n in (one, other))
    return in_constructor and owner is not None and owner is other_owner


def _mend(
    context: Context, optimizer: cst.Call, read: cst.Call, move: Move, written: set[cst.CSTNode]
) -> None:
    region = _Region.of(context, optimizer, read, move)
    if region is not None and region.safe():
        region.reorder()
        return
    source = context.roles.index(optimizer).source
    line = f"{source.span(optimizer).line}"
    if source is not context.index.source:
        line += " of " + source.path.rpartition("/")[2]
    if not context.target.swaps_parameters:
        message = f"the optimizer of line {line} is built before this move: it would train the old parameters"
        context.plan.report(BEFORE, move.call, message, "move the model first, then build the optimizer")
        return
    _switch(context, BEFORE, move, written)
    message = f"the optimizer of line {line} is built before this move, which is told to keep its parameters"
    context.plan.report(BEFORE, move.call, message, "better: move the model first, then build it", fixed=True)


def _switch(context: Context, rule: Rule, move: Move, written: set[cst.CSTNode]) -> None:
    """Write the lines that let a move keep the parameters."""
    statement = context.index.statement_of(move.call)
    assert statement is not None
    if statement not in written:
        written.add(statement)
        change = context.plan.change(rule, move.call, "the move keeps the optimizer's parameters")
        keep_identity(change, statement)


def _round_trip(
    context: Context,
    away: Move,
    every: Sequence[Move],
    optimizers: Sequence[cst.Call],
) -> None:
    roles = context.roles
    taking = [o for o in optimizers if any(same_model(roles, m, away) for m in parameters_taken(roles, o))]
    back = [m for m in every if same_model(roles, away.model, m) and comes_before(roles, away.call, m.call)]
    if back and any(_runs_before(roles, o, away.call) and not _between(roles, away, o, back) for o in taking):
        message = "the model goes to the CPU and back, which parts it from its optimizer"
        context.plan.report(ROUND_TRIP, away.call, message, _COPY)


def _between(roles: Roles, away: Move, optimizer: cst.Call, back: Sequence[Move]) -> bool:
    """Whether the optimizer is built only when the model is back."""
    return any(_runs_before(roles, m.call, optimizer) for m in back)


class _Region:
    """The statements of one block from the first reader of the parameters to the move."""

    def __init__(self, context: Context, body: list[cst.CSTNode], move: Move) -> None:
        self.context = context
        self.body = body
        self.move = move

    @classmethod
    def of(cls, context: Context, optimizer: cst.Call, read: cst.Call, move: Move) -> _Region | None:
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
                return child is parent.func and method(parent) in _HARMLESS and receiver(parent) is not None
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
        source, line = self.context.index.source, self.body[-1]
        end = source.line_end(source.offsets(line)[1])
        return any(s.start == s.end == end and s.rank <= 0 for s in self.context.plan.sites())

    def reorder(self) -> None:
        plan, source = self.context.plan, self.context.index.source
        first, line = self.body[0], self.body[-1]
        start = source.line_start(plan.offsets(first)[0])
        middle, end = self._with_comment(line), source.line_end(plan.offsets(line)[1])
        message = "the model is moved first: on XLA a move makes new parameters"

        def write(render: Render) -> str:
            moved = render((middle, end))
            ended = moved.endswith(("\n", "\r"))
            return (moved if ended else moved + source.newline) + render((start, middle))

        change = plan.change(REORDERED, self.move.call, message)
        change.replace_statements(first, line, write)
