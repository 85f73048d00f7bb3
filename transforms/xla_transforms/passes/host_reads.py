"""Reads of device values that stay in a step loop: made cheap where they are guarded, reported elsewhere.

Behind a barrier a read costs a transfer but no execution. Where the user's flags may choose the CPU a step
closure would never run, so a guarded read gets a barrier of its own in front of it.
Source: pytorch/xla, the guides "PyTorch on XLA devices" and "Recompilation"; executions counted on 2.9.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.loops.deferral import Deferral
from xla_transforms.loops.effects import Effect
from xla_transforms.loops.units import Unit, lines_of
from xla_transforms.reading import BRANCH, BRANCH_ADVICE, GUARDED, READ, READ_ADVICE, CalledReads, barrier

RULES = (READ, BRANCH, GUARDED)


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for deferral in context.deferrals:
        with context.plan.together(deferral.loop):
            _guarded_barriers(context, deferral, _barriers(context, deferral))
            _barriers_of_many(context, deferral)
        with context.plan.together(deferral):
            _restore(context, deferral)
        for unit in _costly(deferral):
            _report(context, deferral, unit)
    CalledReads(context).report()


def _barriers(context: Context, deferral: Deferral) -> set[cst.CSTNode]:
    """Write a barrier in front of what reads at the end of a step, where step closures may not run.

    The blocks that begin with one.
    """
    if deferral.closures:
        return set()
    units = [
        unit for run in deferral.runs for unit in run.units if unit.reads or unit.mentions & deferral.late
    ]
    always = next((u for u in units if not u.guards), None)
    written: set[cst.CSTNode] = set()
    for block in dict.fromkeys(u.guards[0] for u in units if u.guards):
        line = lines_of(block)[0]
        if not deferral.works_after(block) and not (always and _precedes(context, always, line)):
            barrier(context, line)
            written.add(block)
    if always is not None:
        barrier(context, always.statement)
        message = "values are read at the end of every step, behind a barrier of their own: the host waits"
        context.plan.report(GUARDED, always.statement, message, READ_ADVICE)
        guarded = [unit for unit in deferral.left if unit.guards]
        written |= {u.guards[0] for u in guarded if _precedes(context, always, u.statement)}
    return written


def _guarded_barriers(context: Context, deferral: Deferral, written: set[cst.CSTNode]) -> None:
    """Where a read that cannot move ends some steps, let the whole step run before it, in one execution."""
    for unit in deferral.left:
        simple = isinstance(unit.statement, cst.SimpleStatementLine)
        if not unit.guards or not simple or written.intersection(unit.guards):
            continue
        if _reading(context, deferral, unit) is not None:
            continue  # one barrier before its loop, not one in each turn
        if not deferral.works_after(unit.statement):
            barrier(context, unit.statement)
            written.add(unit.block)


def _barriers_of_many(context: Context, deferral: Deferral) -> None:
    """Where a loop within a step reads many values (of each parameter), let the step run before it.

    Else every read computes anew what it needs of the step: an execution of nearly all of it for each.
    """
    loops = context.loops
    for reading in dict.fromkeys(_reading(context, deferral, unit) for unit in deferral.left):
        if reading is not None and not loops.effects.of(reading) and reading not in loops.fenced:
            barrier(context, reading)


def _reading(context: Context, deferral: Deferral, unit: Unit) -> cst.CSTNode | None:
    """The outermost loop within an iteration that a statement is, or stands in."""
    found: cst.CSTNode | None = None
    for node in (unit.statement, *context.index.ancestors(unit.statement)):
        if node is deferral.loop.node:
            return found
        if isinstance(node, (cst.For, cst.While)):
            found = node
    return None


def _precedes(context: Context, unit: Unit, line: cst.CSTNode) -> bool:
    offsets = context.index.source.offsets
    return offsets(unit.statement)[0] < offsets(line)[0]


def _costly(deferral: Deferral) -> list[Unit]:
    """The reads to report: the only one of an evaluation step is the execution that the step has anyway."""
    left = deferral.left
    trains = deferral.loop.effect & (Effect.BACKWARD | Effect.STEP)
    alone = len(left) == 1 and not trains and not deferral.sums and not deferral.runs
    return [] if alone and left[0].whole else left


def _restore(context: Context, deferral: Deferral) -> None:
    for statement, names in deferral.restores.items():
        change = context.plan.change(
            GUARDED, statement, "what was summed on the device becomes a number here"
        )
        change.before(statement, *(deferral.restored(name) for name in names))


def _report(context: Context, deferral: Deferral, unit: Unit) -> None:
    code = context.index.source.code
    branch = not unit.whole or context.loops.effects.of(unit.statement)
    for read in (r for r in unit.reads if context.plan.free(r)):
        text = " ".join(code(read).split())
        text = text if len(text) <= 60 else text[:57] + "..."
        if branch and isinstance(unit.statement, (cst.If, cst.While, cst.Assert)):
            context.plan.report(
                BRANCH, read, f"a branch needs {text} on the host in every step", BRANCH_ADVICE
            )
        elif not unit.guards:
            context.plan.report(READ, read, f"{text} is read in every step: one more execution", READ_ADVICE)
