"""What the master did alone, though every replica must take part: saves, step closures, reads of the device.

Bringing tensors to the CPU makes the device run what is pending; on one replica alone that would wait for a
reduction which the others never begin. So the guard opens: the save, the closure and the read come to all
replicas, and what else it kept for the master stays the master's.
Source: pytorch/xla v2.9.0, ``xla_model.save`` and ``add_step_closure``; pytorch/xla#2224, #1795.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.guarding import Guards, Hoists
from xla_transforms.loops.sinks import bound_names
from xla_transforms.replicas import Region
from xla_transforms.replicas.withheld import withholding

UNGUARDED = Rule(
    "XLA811",
    "save-on-all",
    "Every replica reaches a save that was the first process's alone.",
    "xm.save writes on the master only, and all replicas have to bring their tensors to the CPU "
    "(pytorch/xla#2224, #4571).",
)
GUARDED = Rule(
    "XLA812",
    "save-guarded",
    "A save stands under a guard that lets one replica through.",
    "The other replicas do not reach it: where a reduction is pending the one that saves waits for ever.",
    Severity.ERROR,
    Safety.DISPLAY,
)
DECIDED = Rule(
    "XLA813",
    "masters-decision",
    "All replicas follow the master's decision to save.",
    "It was taken by a number that is each replica's own; a save has to be reached by all or by none "
    "(pytorch/xla v2.9.0, xla_model.mesh_reduce).",
)
SHOWN = Rule(
    "XLA723",
    "log-on-all",
    "Every replica adds the step closure in which the master alone shows values.",
    "A value that one replica alone keeps makes its graph another one, and the replicas wait for each other "
    "(pytorch/xla#1795).",
)
UNSHOWN = Rule(
    "XLA724",
    "log-guarded",
    "A step closure is added under a guard that lets one replica through.",
    "The replicas' graphs differ in that step: the reductions in them do not meet (pytorch/xla#1795).",
    Severity.ERROR,
    Safety.DISPLAY,
)
READ = Rule(
    "XLA725",
    "read-on-all",
    "Every replica reads a value that the master alone shows.",
    "A read makes the device run what is pending, which all replicas must do together (pytorch/xla#1795).",
)
UNREAD = Rule(
    "XLA726",
    "read-guarded",
    "The master alone reads a value of the device.",
    "A read makes the device run what is pending: where a reduction is, the master waits for the others.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (UNGUARDED, GUARDED, DECIDED, SHOWN, UNSHOWN, READ, UNREAD)

_SAVE_ADVICE = "let every replica reach xm.save, and keep the guard for what only the master may do"
_LOG_ADVICE = "add the step closure on all replicas, and keep the guard inside of it"
_READ_ADVICE = "read the value on all replicas, above the guard"


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    guards, hoists = Guards(context), _Hoisting(context)
    opened = _open(context, guards, hoists)
    for call in context.replicas.alone.shared:
        if context.roles.index(call) is context.index:
            _tell_of(context, guards, call)
    for guard, master in context.replicas.alone.of_module(context.index):
        if guard not in opened and not _in_closure(context, guards, guard):
            with context.plan.together(guard):
                hoists.above(guards, guards.region(guard, master))


def _tell(
    context: Context, guards: Guards, call: cst.Call, place: cst.CSTNode, where: str, *, fenced: bool = False
) -> None:
    message = f"the other replicas do not reach the save {where}"
    _tell_alone(context, place, message, stuck=not fenced and guards.pending(call))


def _tell_alone(context: Context, place: cst.CSTNode, message: str, *, stuck: bool) -> None:
    """Where no step is pending when the master saves alone, and the save waits for nobody, that may be so."""
    if context.target.save_waits or stuck:
        context.plan.report(GUARDED, place, message, _SAVE_ADVICE)
    else:
        advice = "no step is pending there, so the master may save alone"
        context.plan.report(GUARDED, place, message, advice, severity=Severity.INFO)


def _tell_of(context: Context, guards: Guards, call: cst.Call) -> None:
    """Report what keeps some replicas from a save and cannot be opened."""
    alone = context.replicas.alone
    if (choice := alone.choosing(call)) is not None:
        _tell(context, guards, call, choice, "in it: it is evaluated by some of them alone", fenced=True)
    for leave in alone.barred(call):
        _tell(context, guards, call, leave, "below: some leave here in a way of their own")
    for place in withholding(alone, call):
        if context.roles.index(place) is context.index:
            decorated = isinstance(place, cst.Decorator)
            why = "it lets some alone run the function" if decorated else "some of them alone come here"
            _tell(context, guards, call, place, f"in it: {why}", fenced=True)
    for test in alone.unclear(call):
        text = " ".join(context.index.source.code(test).split())
        message = f"it is not known what {text} asks: if some replicas alone come to the save, they wait"
        context.plan.report(GUARDED, test, message, _SAVE_ADVICE)


def _in_closure(context: Context, guards: Guards, node: cst.CSTNode) -> bool:
    """Whether a guard, or a read, goes into a step closure whole: what is in it runs behind the barrier."""
    return any(context.index.within(node, line) for line in guards.lines)


def _open(context: Context, guards: Guards, hoists: _Hoisting) -> set[cst.CSTNode]:
    """Open the guards of saves and step closures; gives the guards whose blocks are seen to."""
    for region in guards.saving:
        if region.obstacle:
            _report(context, guards, region)
        elif region.block or region.leaves or region.node in context.replicas.alone.masters:
            with context.plan.together("saves", region.node):
                hoists.of_runs(region)
                change = context.plan.change(UNGUARDED, region.node, "every replica reaches xm.save")
                guards.open(change, region)
                _decide(context, guards, region)
    for region in guards.logging:
        if region.obstacle:
            message = f"the other replicas do not add the step closure in it: {region.obstacle}"
            context.plan.report(UNSHOWN, region.node, message, _LOG_ADVICE)
            continue
        with context.plan.together(region.node):
            hoists.of_runs(region)
            change = context.plan.change(SHOWN, region.node, "the closure itself asks for the master")
            guards.open(change, region)
    return {region.node for region in (*guards.saving, *guards.logging)}


def _report(context: Context, guards: Guards, region: Region) -> None:
    if not isinstance(region.node, cst.If):  # a function's is told at the guards of those who call it
        return
    message = f"the other replicas do not reach the save in it: {region.obstacle}"
    stuck = guards.pending(region.node) and not guards.fenceable(region.master)
    _tell_alone(context, region.node, message, stuck=stuck)


def _decide(context: Context, guards: Guards, region: Region) -> None:
    for test in region.decisions:
        if guards.differs(test):
            change = context.plan.change(DECIDED, test, "all replicas follow the master's decision")
            tag = f'"{context.index.function_name(test)}_saves"'
            spelled = change.spell(context.target.mesh_reduce)
            for number, part in enumerate((tag, "bool({value})", "lambda answers: answers[0]")):
                spelled = spelled.replace(f"{{{number}}}", part)
            change.wrap(test, spelled.replace("{value}", "{0}"), brackets=True)


class _Hoisting:
    """Writes the reads of the master's statements above them."""

    def __init__(self, context: Context) -> None:
        self.context, self.hoists = context, Hoists(context)
        self._taken: set[str] = set()
        self._done: set[cst.CSTNode] = set()

    def of_runs(self, region: Region) -> None:
        for lines in region.runs:
            self._write(lines, lines[0])

    def above(self, guards: Guards, region: Region) -> None:
        """The reads in a guard that is there for the master's own sake."""
        found = self.hoists.reads_in(region.statements)
        reads = [r for r in found if r not in self._done and not _in_closure(self.context, guards, r)]
        if not reads:
            return
        if not region.rest and not self._is_elif(region.node):
            self._write(region.statements, region.node)
        elif region.obstacle or any(map(guards.differs, region.decisions)):
            self._report(reads[0])
        else:
            self.of_runs(region)
            guards.open(
                self.context.plan.change(READ, region.node, "every replica reads, the master shows"), region
            )

    def _is_elif(self, guard: cst.CSTNode) -> bool:
        parent = self.context.index.parent(guard)
        return isinstance(parent, cst.If) and parent.orelse is guard

    def _write(self, statements: Sequence[cst.CSTNode], above: cst.CSTNode) -> None:
        bound = {name for s in statements for name in bound_names(s)}
        names: dict[str, str] = {}
        for read in self.hoists.reads_in(statements):
            if read in self._done:
                continue
            self._done.add(read)
            pieces = self.hoists.pieces(read)
            free = all(self.context.plan.free(node) for node, _ in pieces)
            if not pieces or not free or not all(self.hoists.plain(node, bound) for node, _ in pieces):
                self._report(read)
                continue
            mode = self.hoists.mode(read, statements)
            for node, text in pieces:
                change = self.context.plan.change(READ, node, "every replica reads, the master shows")
                if text not in names:
                    names[text] = self.hoists.name(node, self._taken)
                    self._taken.add(names[text])
                    line = f"{names[text]} = {text}"
                    indent = self.context.index.source.indent
                    change.before(above, *([f"with {mode}:", indent + line] if mode else [line]))
                change.replace(node, names[text])

    def _report(self, read: cst.BaseExpression) -> None:
        self.context.plan.report(UNREAD, read, "the master alone reads this value", _READ_ADVICE)
