"""Reads of device values that stay in a step loop: made cheap where they are guarded, reported elsewhere.

Behind a barrier a read costs a transfer but no execution. Where the user's flags may choose the CPU a step
closure would never run, so a guarded read gets a barrier of its own in front of it.
Source: pytorch/xla, the guides "PyTorch on XLA devices" and "Recompilation"; executions counted on 2.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.guarding import Guards
from xla_transforms.loops.deferral import Deferral
from xla_transforms.loops.effects import Effect
from xla_transforms.loops.forwards import Forwards, functions_called, surely_read
from xla_transforms.loops.tails import Tail, tail_of
from xla_transforms.loops.units import Unit, lines_of
from xla_transforms.tree import walk

READ = Rule(
    "XLA701",
    "host-read",
    "Something in a step loop brings a value to the host in every step.",
    "Each read before the barrier is an execution of its own and makes the host wait (pytorch/xla#2231).",
    Severity.WARNING,
    Safety.DISPLAY,
)
BRANCH = Rule(
    "XLA702",
    "host-branch",
    "Python decides by the value of a device tensor in a step loop.",
    "The condition is read in every step, which cuts the step in two executions (pytorch/xla#1368).",
    Severity.WARNING,
    Safety.DISPLAY,
)
GUARDED = Rule(
    "XLA703",
    "barrier-before-log",
    "A read at the end of a step gets a barrier in front of it where a step closure may not run.",
    "Behind a barrier a read costs no execution, and no harm on the CPU, where a step closure would not run.",
)
RULES = (READ, BRANCH, GUARDED)

_READ_ADVICE = (
    "keep the tensor, detached, and read it every few steps or behind the loop; "
    "or hand it to xm.add_step_closure"
)
_BRANCH_ADVICE = (
    "decide on the device (torch.where), or every few steps; a skipped step is not a zero gradient "
    "for momentum, Adam or weight decay; on several replicas all must decide alike (xm.all_reduce of a flag)"
)


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
    _in_functions(context)


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
            _barrier(context, line)
            written.add(block)
    if always is not None:
        _barrier(context, always.statement)
        message = "values are read at the end of every step, behind a barrier of their own: the host waits"
        context.plan.report(GUARDED, always.statement, message, _READ_ADVICE)
        guarded = [unit for unit in deferral.left if unit.guards]
        written |= {u.guards[0] for u in guarded if _precedes(context, always, u.statement)}
    return written


def _guarded_barriers(context: Context, deferral: Deferral, written: set[cst.CSTNode]) -> None:
    """Where a read that cannot move ends some steps, let the whole step run before it, in one execution."""
    for unit in deferral.left:
        simple = isinstance(unit.statement, cst.SimpleStatementLine)
        if not unit.guards or not simple or written.intersection(unit.guards):
            continue
        if not deferral.works_after(unit.statement):
            _barrier(context, unit.statement)
            written.add(unit.block)


def _barriers_of_many(context: Context, deferral: Deferral) -> None:
    """Where a loop within a step reads many values (of each parameter), let the step run before it.

    Else every read computes anew what it needs of the step: an execution of nearly all of it for each.
    """
    loops = context.loops
    for reading in dict.fromkeys(_reading(context, deferral, unit) for unit in deferral.left):
        if reading is not None and not loops.effects.of(reading) and reading not in loops.fenced:
            _barrier(context, reading)


def _reading(context: Context, deferral: Deferral, unit: Unit) -> cst.CSTNode | None:
    """The outermost loop within an iteration that a statement is, or stands in."""
    found: cst.CSTNode | None = None
    for node in (unit.statement, *context.index.ancestors(unit.statement)):
        if node is deferral.loop.node:
            return found
        if isinstance(node, (cst.For, cst.While)):
            found = node
    return None


def _barrier(context: Context, line: cst.CSTNode) -> None:
    change = context.plan.change(GUARDED, line, "the step runs before its values are read")
    if context.distributed:
        line = Guards(context).place_for_all(line)
    change.before(line, change.spell(context.target.sync))
    context.loops.fenced.add(line)


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
    for read in unit.reads:
        text = " ".join(code(read).split())
        text = text if len(text) <= 60 else text[:57] + "..."
        if branch and isinstance(unit.statement, (cst.If, cst.While, cst.Assert)):
            context.plan.report(
                BRANCH, read, f"a branch needs {text} on the host in every step", _BRANCH_ADVICE
            )
        elif not unit.guards:
            context.plan.report(READ, read, f"{text} is read in every step: one more execution", _READ_ADVICE)


def _in_functions(context: Context) -> None:
    """Reads in functions that iterations call: each of a loop, or some."""
    called = [item for deferral in context.deferrals for item in _called(context, deferral)]
    for function in dict.fromkeys(item.function for item in called):
        calls = [item for item in called if item.function is function]
        tail = tail_of(context.loops, function, last=all(item.last for item in calls))
        for statement in tail.barriers:
            _barrier(context, statement)
        line = next((item.line for item in calls if not item.guarded), None)
        if line is not None:
            _report_function(context, function, tail, line)
            _decisions(context, function, tail, line)
    lines = {item.function: item.line for item in called if not item.guarded}
    for function, line in _below(context, lines).items():
        _decisions(context, function, Tail(), line)


def _below(context: Context, lines: dict[cst.FunctionDef, int]) -> dict[cst.FunctionDef, int]:
    """The functions of the module that these call, and so on, each with the line of the loop."""
    forwards = Forwards(context.roles, context.loops.effects).computing(context.index) if lines else {}
    found: dict[cst.FunctionDef, int] = {}
    waiting = list(lines.items())
    while waiting:
        function, line = waiting.pop()
        for inner in functions_called(context.roles, function):
            if inner not in lines and inner not in found and inner not in forwards:
                found[inner] = line
                waiting.append((inner, line))
    return found


def _decisions(context: Context, function: cst.FunctionDef, tail: Tail, line: int) -> None:
    """What a function decides by, or counts a loop by, that the host has to wait for in every step."""
    reads = context.loops.reads
    for statement in walk(function.body, into_functions=False):
        if context.roles.dead(statement) or context.loops.of(statement) is not None:
            continue
        needed = reads.decides(statement)
        if isinstance(statement, cst.For):
            needed = next(reads.within(statement.iter), None)
        if needed is not None and surely_read(reads, needed) and tail.free.isdisjoint(walk(needed)):
            text = " ".join(context.index.source.code(needed).split())
            message = f"{text} is needed on the host in every step of the loop in line {line}"
            context.plan.report(BRANCH, needed, message, _BRANCH_ADVICE)


@dataclass(frozen=True)
class _Called:
    """A function of this module that iterations call: the line of the loop, whether only some call it, and
    whether nothing works behind the call."""

    function: cst.FunctionDef
    line: int
    guarded: bool
    last: bool


def _called(context: Context, deferral: Deferral) -> Iterator[_Called]:
    line = context.index.source.span(deferral.loop.node).line
    moved = [unit.statement for run in deferral.runs for unit in run.units] if deferral.closures else []
    guarded = [unit.statement for unit in deferral.units if unit.guards]
    for call in context.loops.effects.calls(deferral.loop.node.body):
        if any(context.index.within(call, statement) for statement in moved):
            continue
        some = any(context.index.within(call, statement) for statement in guarded)
        last = not deferral.works_after(context.index.statement_of(call) or call)
        for item in context.roles.facts(call.func):
            own = item.node is not None and context.roles.index(item.node) is context.index
            if own and isinstance(item.node, cst.FunctionDef) and item.node not in deferral.functions:
                yield _Called(item.node, line, some, last)


def _report_function(context: Context, function: cst.FunctionDef, tail: Tail, line: int) -> None:
    for statement in tail.always:
        message = f"values are read at the end of every step of the loop in line {line}: the host waits"
        context.plan.report(GUARDED, statement, message, _READ_ADVICE)
    for statement in walk(function.body, into_functions=False):
        if not isinstance(statement, cst.SimpleStatementLine) or context.loops.of(statement) is not None:
            continue
        for read in context.loops.reads.within(statement):
            if read not in tail.free:
                text = " ".join(context.index.source.code(read).split())
                message = f"{text} is read in every step of the loop in line {line}: one more execution"
                context.plan.report(READ, read, message, _READ_ADVICE)
