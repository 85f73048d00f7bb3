"""Barriers: one for every iteration of a training or evaluation loop, never two, none missing.

PyTorch/XLA records work until it is told to run it. An ``MpDeviceLoader`` does that whenever it is asked
for the next batch; every other loop needs ``torch_xla.sync()`` (``xm.mark_step()`` in older releases).
Source: pytorch/xla, ``torch_xla/distributed/parallel_loader.py`` and the guide "PyTorch on XLA devices".
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety
from xla_transforms.loops import Loop
from xla_transforms.plan import Planned

BARRIER = Rule(
    "XLA601",
    "step-barrier",
    "A loop that no device loader drives gets one explicit barrier an iteration.",
    "Without a barrier nothing runs and the recorded graph grows until memory ends "
    "(SageMaker: training-compiler-troubleshooting; pytorch/xla#2796).",
)
EXIT = Rule(
    "XLA602",
    "barrier-at-exit",
    "Where an iteration ends early, its barrier comes before it leaves.",
    "A device loader runs a step when the next batch is asked for; after a break nobody asks, so the last "
    "step and its step closures would still be pending.",
)
REDUNDANT = Rule(
    "XLA603",
    "barrier-redundant",
    "An iteration has a barrier of its own, so its loader is not wrapped.",
    "synchronize() became a waiting barrier; a device loader would add a second one (pytorch/xla#3119).",
    safety=Safety.DISPLAY,
)
RULES = (BARRIER, EXIT, REDUNDANT)


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for loop in context.loops.all:
        if context.loops.synchronized(loop) is not None:
            if loop.loader is not None:
                message = "the loop's own synchronize() is its barrier, so its loader stays as it is"
                advice = "take the synchronize() out, if it is not there to measure, and wrap the loader"
                context.plan.report(REDUNDANT, loop.node, message, advice)
            continue
        with context.plan.together(loop):
            _place(context, loop)


def _place(context: Context, loop: Loop) -> None:
    anchor = context.loops.barrier_after(loop)
    if anchor is not None:
        change = context.plan.change(BARRIER, loop.node, "one barrier ends each iteration's device work")
        sync = change.spell(context.target.sync)
        if isinstance(loop.node.body, cst.IndentedBlock):
            change.after(anchor, sync)
        else:
            change.wrap(anchor, "{0}; " + sync)
    _before_exits(context, loop)


def _before_exits(context: Context, loop: Loop) -> None:
    kinds: list[type[cst.CSTNode]] = [cst.Break, cst.Return]
    if not loop.wrapped:
        kinds.append(cst.Continue)
    for kind in kinds:
        for node in context.loops.exits(loop, kind):
            if not context.loops.behind_barrier(loop, node) and not context.loops.settled(node):
                message = "the iteration's barrier comes before it leaves"
                change = context.plan.change(EXIT, node, message)
                _insert(context, change, node)


def _insert(context: Context, change: Planned, node: cst.CSTNode) -> None:
    """Write the barrier before a small statement, on its own line where the statement has one."""
    sync = change.spell(context.target.sync)
    line = context.index.parent(node)
    if isinstance(line, cst.SimpleStatementLine) and line.body[0] is node:
        change.before(line, sync)
    else:
        change.wrap(node, sync + "; {0}")
