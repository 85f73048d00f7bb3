"""Gradients averaged by hand: the loop over all parameters is one ``xm.reduce_gradients``.

Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``reduce_gradients``: the mean over the
replicas, of all gradients at once. The optimizer's step behind it stays plain.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule

AVERAGE = Rule(
    "XLA616",
    "gradients-averaged-by-hand",
    "A loop that averages the gradients of all parameters becomes xm.reduce_gradients.",
    "A collective for each parameter waits for the one before; one for all of them does not "
    "(pytorch/xla v2.9.0, core/xla_model.py).",
)
RULES = (AVERAGE,)


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    averaging = context.replicas.averaging
    for statement, optimizers in averaging.reductions.items():
        if context.roles.index(statement) is context.index and not context.plan.taken(statement):
            _reduce(context, statement, optimizers)
    for function in averaging.gone:
        if context.roles.index(function) is context.index:
            change = context.plan.change(AVERAGE, function, "the function only averaged gradients")
            change.remove(function)


def _reduce(context: Context, statement: cst.CSTNode, optimizers: list[cst.BaseExpression]) -> None:
    change = context.plan.change(AVERAGE, statement, "the gradients' mean over all replicas, at once")
    texts = dict.fromkeys(map(context.index.source.code, optimizers))
    text = change.spell(context.target.reduce_gradients)
    change.before(statement, *(text.replace("{0}", code) for code in texts))
    change.remove(statement)
