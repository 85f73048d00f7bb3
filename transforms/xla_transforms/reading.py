"""Reads of device values in functions that iterations of step loops call, in whichever file these stand.

Source: pytorch/xla, the guides "PyTorch on XLA devices" and "Recompilation"; pytorch/xla#1368, #2231.
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
from xla_transforms.loops.followed import Followed, functions_of
from xla_transforms.loops.forwards import Forwards, surely_read
from xla_transforms.loops.tails import Tail, tail_of
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
READ_ADVICE = (
    "keep the tensor, detached, and read it every few steps or behind the loop; "
    "or hand it to xm.add_step_closure"
)
BRANCH_ADVICE = (
    "decide on the device (torch.where), or every few steps; a skipped step is not a zero gradient "
    "for momentum, Adam or weight decay; on several replicas all must decide alike (xm.all_reduce of a flag)"
)
_TRAINS = Effect.BACKWARD | Effect.STEP


def barrier(context: Context, line: cst.CSTNode) -> None:
    """Let the step run before a statement that reads what it gives, where nothing did just before."""
    if context.loops.settled(line):
        return
    change = context.plan.change(GUARDED, line, "the step runs before its values are read")
    if context.distributed:
        line = Guards(context).place_for_all(line)
    change.before(line, change.spell(context.target.sync))
    context.loops.fenced.add(line)


@dataclass(frozen=True)
class _Called:
    """A function of this module that iterations call: the loop, whether only some call it, and whether
    nothing works behind the call."""

    function: cst.FunctionDef
    loop: cst.CSTNode
    sometimes: bool
    last: bool


class CalledReads:
    """The functions of a module that step loops call: those of its own loops, then what runs further down."""

    def __init__(self, context: Context) -> None:
        self.context, self.roles, self.reads = context, context.roles, context.loops.reads
        self.followed = Followed.of(context.roles)

    def report(self) -> None:
        deferrals = self.context.deferrals
        called = [item for deferral in deferrals for item in self._called(deferral)]
        for function in dict.fromkeys(item.function for item in called):
            calls = [item for item in called if item.function is function]
            tail = tail_of(self.context.loops, function, last=all(item.last for item in calls))
            for statement in tail.barriers:
                barrier(self.context, statement)
            loop = next((item.loop for item in calls if not item.sometimes), None)
            if loop is not None:
                self._report_tail(tail, loop)
                self._report_reads(function, tail, loop, sure=False)
                self._report_decisions(function, tail, loop)
        summed = (function for deferral in deferrals for function in deferral.functions)
        self._report_below({*(item.function for item in called), *summed})

    def _called(self, deferral: Deferral) -> Iterator[_Called]:
        index, loop = self.context.index, deferral.loop.node
        moved = [unit.statement for run in deferral.runs for unit in run.units] if deferral.closures else []
        steady = set(self.followed.reached(loop))
        for call in self.context.loops.effects.calls(loop.body):
            if any(index.within(call, statement) for statement in moved):
                continue
            last = not deferral.works_after(index.statement_of(call) or call)
            for function in functions_of(self.roles, call):
                if self.roles.index(function) is index and function not in deferral.functions:
                    yield _Called(function, loop, call not in steady, last)

    def _report_below(self, told: set[cst.CSTNode]) -> None:
        """What runs in every step further down, or in loops of other files."""
        context = self.context
        run = {f: loop for f, loop in self.followed.every.items() if self.roles.index(f) is context.index}
        forwards = Forwards(self.roles, context.loops.effects).computing(context.index) if run else {}
        for function, loop in run.items():
            if function not in told and function not in forwards:
                if self.followed.effects.of_loop(loop) & _TRAINS:
                    self._report_reads(function, Tail(), loop, sure=True)
                self._report_decisions(function, Tail(), loop)

    def _report_tail(self, tail: Tail, loop: cst.CSTNode) -> None:
        for statement in tail.always:
            message = f"values are read at the end of every step of {self._named(loop)}: the host waits"
            self.context.plan.report(GUARDED, statement, message, READ_ADVICE)

    def _report_reads(self, function: cst.FunctionDef, tail: Tail, loop: cst.CSTNode, *, sure: bool) -> None:
        for statement in self._lines(function):
            if isinstance(statement, cst.SimpleStatementLine):
                for read in self.reads.within(statement):
                    if read not in tail.free and not (sure and not self._known(read)):
                        message = f"{self._text(read)} is read in every step of {self._named(loop)}"
                        self.context.plan.report(READ, read, f"{message}: one more execution", READ_ADVICE)

    def _report_decisions(self, function: cst.FunctionDef, tail: Tail, loop: cst.CSTNode) -> None:
        """What a function decides by, or counts a loop by, that the host has to wait for in every step."""
        for statement in self._lines(function):
            needed = self.reads.decides(statement)
            if isinstance(statement, cst.For):
                needed = next(self.reads.within(statement.iter), None)
            if needed is not None and surely_read(self.reads, needed) and tail.free.isdisjoint(walk(needed)):
                message = f"{self._text(needed)} is needed on the host in every step of {self._named(loop)}"
                self.context.plan.report(BRANCH, needed, message, BRANCH_ADVICE)

    def _lines(self, function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
        """The statements that every run of a function comes to, those of step loops in it left out."""
        for node in self.followed.reached(function):
            statement = isinstance(node, (cst.BaseStatement, cst.BaseSmallStatement))
            if statement and not self.roles.dead(node) and self.context.loops.of(node) is None:
                yield node

    def _known(self, read: cst.BaseExpression) -> bool:
        """Whether a tensor of the device is known to be read, not only something that has an ``item()``."""
        return any(self.reads.on_device(node) for node in walk(read))

    def _named(self, loop: cst.CSTNode) -> str:
        index = self.roles.index(loop)
        line, here = index.source.span(loop).line, index is self.context.index
        return f"the loop in line {line}" if here else f"the loop in {index.source.path}:{line}"

    def _text(self, node: cst.CSTNode) -> str:
        return " ".join(self.context.index.source.code(node).split())
