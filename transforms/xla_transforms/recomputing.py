"""Activation checkpointing under autocast: whether a backward pass stands in a given autocast.

A backward pass there computes checkpointed blocks again, with what autocast keeps from the first time.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.loops import Effect

CHECKPOINT = "torch.utils.checkpoint.checkpoint"


def recomputed_in(context: Context, autocast: cst.Call) -> bool:
    """Whether a program that checkpoints blocks calls ``backward`` while this autocast is on."""
    calls = context.program.calls.get("checkpoint", ())
    if not any(context.roles.path(call.func) == CHECKPOINT for call in calls):
        return False
    return any(context.loops.effects.of(body) & Effect.BACKWARD for body in _bodies(context, autocast))


def _bodies(context: Context, autocast: cst.Call) -> Iterator[cst.CSTNode]:
    """The blocks that run under an autocast: of ``with`` statements, be it by a variable, of functions."""
    index = context.index
    outer = index.parent(autocast)
    if isinstance(outer, cst.Decorator):
        function = index.parent(outer)
        assert isinstance(function, cst.FunctionDef)
        yield function.body
    for statement in index.all(cst.With):
        assert isinstance(statement, cst.With)
        if any(_enters(context, item.item, autocast) for item in statement.items):
            yield statement.body


def _enters(context: Context, item: cst.BaseExpression, autocast: cst.Call) -> bool:
    if context.index.within(autocast, item):
        return True
    values = [b.value for b in context.roles.bindings(item)] if isinstance(item, cst.Name) else []
    return any(context.index.within(autocast, value) for value in values if value is not None)
