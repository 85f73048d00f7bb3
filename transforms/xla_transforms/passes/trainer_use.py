"""What a script does around transformers' Trainer: an optimizer of its own, and saving under a guard.

Source: transformers v4.57 ``trainer.py``: the constructor moves the model and raises where an optimizer
holds parameters on another device; ``save_model`` and ``save_state`` meet the other replicas on XLA.
"""

from __future__ import annotations

import re

import libcst as cst

from xla_transforms.branches import Branches
from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.models import comes_before, keep_identity, moves, parameters_taken, same_model
from xla_transforms.roles import Kind
from xla_transforms.tree import given, method, receiver, walk

ORDER = Rule(
    "XLA928",
    "trainer-optimizer-order",
    "An optimizer is built before Trainer moves its model to the device.",
    "On XLA a move makes new parameters, and Trainer refuses an optimizer that holds others; the switch of "
    "torch.__future__ lets the move keep them (transformers v4.57, trainer.py; run on torch_xla 2.9).",
    Severity.ERROR,
)
GUARD = Rule(
    "XLA929",
    "trainer-guarded-save",
    "Trainer saves on all replicas: it must not be called on one of them alone.",
    "On XLA save_model waits for all replicas, and writes on one (transformers v4.57, trainer.py).",
    Severity.WARNING,
)
RULES = (ORDER, GUARD)

_RANK = re.compile(
    r"local_rank|\b(?:get_|global_)?rank\b|process_index|process_zero|is_main_process|should_save|is_master",
    re.IGNORECASE,
)
_SAVES = ("save_model", "save_state")
_ORDER_ADVICE = "build it once the model is on args.device, or give Trainer optimizer_cls_and_kwargs"


def run(context: Context) -> None:
    for call in context.frameworks.trainers:
        pair = given(call, "optimizers")
        if pair is not None and context.roles.index(call) is context.index:
            _optimizer(context, call, pair.value)
    if context.frameworks.trainers:
        for name in _SAVES:
            for call in context.program.calls.get(name, ()):
                ours = context.roles.index(call) is context.index
                if ours and context.frameworks.is_trainer(receiver(call)):
                    _save(context, call)


def _optimizer(context: Context, call: cst.Call, pair: cst.BaseExpression) -> None:
    first = pair.elements[0].value if isinstance(pair, (cst.Tuple, cst.List)) and pair.elements else pair
    if getattr(first, "value", "") == "None":
        return
    made = [node for node in context.roles.origins(first, Kind.OPTIMIZER) if isinstance(node, cst.Call)]
    if not made:
        message = "whether this optimizer holds the parameters that Trainer moves is not known"
        context.plan.report(ORDER, pair, message, _ORDER_ADVICE, severity=Severity.WARNING)
        return
    statement = context.index.statement_of(call)
    settled = context.program.mentions("set_swap_module_params_on_conversion")
    if statement is None or settled or all(_moved_before(context, optimizer) for optimizer in made):
        return
    line = context.program.line_of(made[0], context.index)
    message = f"the optimizer of line {line} is built before Trainer moves the model"
    if not context.target.swaps_parameters:
        context.plan.report(ORDER, pair, message, _ORDER_ADVICE)
        return
    change = context.plan.change(ORDER, call, "Trainer's move keeps the optimizer's parameters")
    keep_identity(change, statement)
    context.plan.report(ORDER, pair, message, _ORDER_ADVICE, fixed=True)


def _moved_before(context: Context, optimizer: cst.Call) -> bool:
    """Whether the model whose parameters an optimizer takes was moved to the device before that."""
    taken = parameters_taken(context.roles, optimizer)
    every = moves(context.roles)
    return bool(taken) and all(
        any(same_model(context.roles, model, m) and comes_before(context.roles, m.call, read) for m in every)
        for model, read in taken.items()
    )


def _save(context: Context, call: cst.Call) -> None:
    branch = context.index.branch(call)
    guard = branch.statement if branch is not None else None
    if guard is None or not _RANK.search(context.index.source.code(guard.test)):
        return
    lines = guard.body.body
    asks_for_rank_alone = not any(isinstance(n, cst.BooleanOperation) for n in walk(guard.test))
    alone = asks_for_rank_alone and len(lines) == 1 and guard.orelse is None
    alone = alone and method(_sole(lines[0])) in _SAVES
    message = f"{method(call)} under a guard leaves the other replicas out, which it waits for"
    if not alone or context.plan.taken(guard):
        advice = "call it without the guard: Trainer writes on one replica by itself"
        context.plan.report(GUARD, call, message, advice)
        return
    change = context.plan.change(GUARD, guard, "Trainer writes on one replica by itself")
    if not Branches(context).keep_block(change, guard, guard.body):
        context.plan.report(GUARD, call, message, "call it without the guard")
        return
    context.plan.report(GUARD, call, message, fixed=True)


def _sole(line: cst.CSTNode) -> cst.CSTNode | None:
    """The expression that a line is."""
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    return small.value if isinstance(small, cst.Expr) else None
