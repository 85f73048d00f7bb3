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
from xla_transforms.early_moves import Block, Maker
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.models import (
    Move,
    Taken,
    comes_before,
    keep_identity,
    moved_itself,
    moves,
    parameters_taken,
    returns_to_host,
    same_model,
    taken,
)
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.facts import of_kind

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
        if context.roles.index(move.call) is context.index:
            early = [one for o in optimizers for one in _taken_too_early(context, o, move, every)]
            if early:
                _mend(context, early, move, written)
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
) -> list[Taken]:
    """The models of an optimizer that come to the device by a later move, with what reads them."""
    roles, found = context.roles, []
    for one in taken(roles, optimizer):
        if not same_model(roles, one.model, move) or not _runs_before(roles, one.read, move.call):
            continue
        alike = [m for m in every if m is not move and _alike(roles, m, move)]
        others = [m for m in alike if same_model(roles, one.model, m)]
        if not any(_runs_before(roles, m.call, n) for m in others for n in (one.read, move.call)):
            found.append(one)
    return found


def _alike(roles: Roles, one: Move, other: Move) -> bool:
    """Whether two moves move one model; what a move is given may be a call that nothing else names."""
    named = (one.model, one.holder)
    return any(same_model(roles, node, other) for node in named if node is not None)


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
    context: Context, early: Sequence[Taken], move: Move, written: set[cst.CSTNode]
) -> None:
    optimizer, read = early[0].maker, early[0].read
    alone = all(moved_itself(context.roles, one.model, move) for one in early)
    block = Block.of(context, optimizer, read, move)
    maker = Maker.of(context, [(one.model, one.read) for one in early], move)
    ways = [way for way in (block, maker) if way is not None] if alone else []
    found = next((way for way in ways if way.safe()), None)
    if found is not None:
        message = "the model is moved first: on XLA a move makes new parameters"
        found.write(context.plan.change(REORDERED, move.call, message))
    else:
        _keep(context, optimizer, move, written)


def _keep(context: Context, optimizer: cst.Call, move: Move, written: set[cst.CSTNode]) -> None:
    """Let the move keep the parameters where torch can, and tell of it."""
    line = context.program.line_of(optimizer, context.index)
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
