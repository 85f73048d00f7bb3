"""Batches of uneven shape: padding to the longest text, sequences of any length, the last batch.

Nothing is rewritten: the tool never invents a length, and ``drop_last=True`` would change what is trained on.
Source: pytorch/xla#6413, #2020; huggingface "Training on TPU"; counted on 2.9 (a ragged tail: one more).
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.loops import Effect, Loop
from xla_transforms.roles import Kind
from xla_transforms.tree import argument, has_star, number_value, string_value, value_of

PADDING = Rule(
    "XLA901",
    "dynamic-padding",
    "Batches are padded to their longest member, so every batch may have a new shape.",
    "Every new length is a new compilation (pytorch/xla#6413; fairseq#4198: 429 of them in 493 steps).",
    Severity.WARNING,
)
LAST = Rule(
    "XLA905",
    "ragged-last-batch",
    "The last batch of an epoch may be smaller than the others.",
    "Its shape is one more compilation; of several replicas it can leave one waiting (pytorch/xla#2020).",
)
RULES = (PADDING, LAST)

_COLLATORS = ("DataCollatorWithPadding", "DataCollatorForTokenClassification", "DataCollatorForSeq2Seq")
_FIXED = 'padding="max_length", max_length=<the longest you need>'


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for call in context.index.all(cst.Call):
        assert isinstance(call, cst.Call)
        _padding(context, call)
    _last_batches(context)


def _padding(context: Context, call: cst.Call) -> None:
    path = context.roles.path(call.func)
    name = path.rpartition(".")[2]
    padding = value_of(call, "padding")
    if path == "torch.nn.utils.rnn.pad_sequence":
        message = "pad_sequence pads to the longest sequence of each batch: every new length compiles"
        context.plan.report(
            PADDING,
            call,
            message,
            "pad on to a constant length (torch.nn.functional.pad), or to a few lengths",
        )
        return
    collates = name in _COLLATORS and path.startswith("transformers.")
    if not collates and (padding is None or not _longest(padding) or path.startswith("torch.")):
        return
    if collates and padding is not None and not _longest(padding):
        return
    written = (
        f"padding={context.index.source.code(padding)}" if padding is not None else f"{name} without padding="
    )
    rounded = argument(call, "pad_to_multiple_of")
    fixed = (
        "its lengths are rounded: a few compilations" if rounded else "every new length is a new compilation"
    )
    severity = Severity.INFO if rounded else None
    message = f"{written} pads to the longest text of a batch: {fixed}"
    context.plan.report(PADDING, call, message, f"write {_FIXED}, or pad to a few lengths", severity=severity)


def _longest(padding: cst.BaseExpression) -> bool:
    return string_value(padding) == "longest" or (isinstance(padding, cst.Name) and padding.value == "True")


def _last_batches(context: Context) -> None:
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
