"""Batches of uneven shape: the last one of an epoch.

Nothing is rewritten: ``drop_last=True`` would change what is trained on.
Source: pytorch/xla#2020; huggingface "Training on TPU"; counted on 2.9 (a ragged tail: one more).
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.loops import Effect, Loop
from xla_transforms.roles import Kind
from xla_transforms.tree import argument, has_star, number_value, value_of

LAST = Rule(
    "XLA905",
    "ragged-last-batch",
    "The last batch of an epoch may be smaller than the others.",
    "Its shape is one more compilation; of several replicas it can leave one waiting (pytorch/xla#2020).",
    safety=Safety.DISPLAY,
)
RULES = (LAST,)

def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for loop in context.loops.all:
        origins = context.roles.origins(loop.loader, Kind.LOADER) if loop.loader is not None else ()
        for call in origins:
            if isinstance(call, cst.Call) and context.roles.index(call) is context.index:
                _last_batch(context, loop, call)


def _last_batch(context: Context, loop: Loop, call: cst.Call) -> None:
    given = value_of(call, "drop_last", 8)
    size = value_of(call, "batch_size", 1)
    whole = number_value(size) == 1 or (isinstance(size, cst.Name) and size.value == "None")
    if whole or has_star(call) or argument(call, "batch_sampler") is not None:
        return
    trains = bool(loop.effect & (Effect.BACKWARD | Effect.STEP))
    if given is None and not trains:
        message = (
            "the last batch of this evaluation may be smaller: one more compilation, and no sample is lost"
        )
        context.plan.report(LAST, call, message, "leave it, or choose a batch size that divides the data")
    elif given is None:
        message = "the last training batch may be smaller: one more compilation"
        context.plan.report(
            LAST, call, message, "drop_last=True gives one shape, at the price of the samples left over"
        )
    elif trains and isinstance(given, cst.Name) and given.value == "False":
        message = "drop_last=False keeps a smaller last batch: one more compilation"
        context.plan.report(LAST, call, message, "drop_last=True gives one shape", severity=Severity.WARNING)
