"""Decisions by a number that each replica computes from its own share of the data, or reads from its clock.

One replica stops early, skips a step or lowers its learning rate while the others go on: they wait for it in
the next reduction, or train another model from then on.
Source: PyTorch/XLA's guide "Recompilation"; pytorch/xla#1368, NVIDIA-NeMo/Speech#578 (a skip that hangs).
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.loops import Effect
from xla_transforms.replicas.altering import alterations
from xla_transforms.replicas.collectives import MEETINGS, short
from xla_transforms.replicas.reach import comes_to
from xla_transforms.replicas.regions import exits
from xla_transforms.roles import Kind
from xla_transforms.tree import LOOPS, method, receiver, walk

OWN = Rule(
    "XLA171",
    "own-decision",
    "Python decides by a number that is each replica's own.",
    "Replicas that decide differently do not reach the same reductions: they wait for ever, or train "
    "different models (pytorch/xla#1368).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (OWN,)

_REDUCE = (
    'reduce it first, on all replicas: xm.mesh_reduce("{0}", {0}, lambda values: sum(values) / len(values))'
)
_ENDS = frozenset({"sys.exit", "os._exit", "builtins.exit", "builtins.quit"})


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    for call, _ in context.reached:
        if method(call) == "step" and Kind.SCHEDULER in context.roles.kinds(receiver(call)):
            _schedule(context, call)
    regions = context.replicas.alone.regions
    answered = {test for region in regions for test in region.decisions} | {r.node for r in regions}
    for loop in context.index.all(cst.For):
        assert isinstance(loop, cst.For)
        if not context.roles.dead(loop):
            _turn(context, loop)
    for statement in context.index.all(cst.If, cst.While):
        assert isinstance(statement, (cst.If, cst.While))
        test = statement.test
        if not {test, statement} & answered and not context.roles.dead(statement):
            _decide(context, statement)


def _differs(context: Context, node: cst.CSTNode) -> bool:
    return context.replicas.decisions.differs(node)


def _schedule(context: Context, call: cst.Call) -> None:
    for arg in call.args:
        if _differs(context, arg.value):
            text = context.index.source.code(arg.value)
            message = f"the schedule goes by {text}, of which each replica has its own: learning rates differ"
            name = text if text.isidentifier() else "value"
            context.plan.report(OWN, call, message, _REDUCE.format(name))


def _turn(context: Context, loop: cst.For) -> None:
    """Tell of steps that are counted from, or up to, a number which replicas do not share."""
    counts = [n for n in walk(loop.iter) if context.roles.path(getattr(n, "func", None)) == "builtins.range"]
    values = [arg.value for call in counts if isinstance(call, cst.Call) for arg in call.args]
    for value in values:
        alone = context.replicas.decisions.found_by_master(value)
        if (alone or _differs(context, value)) and _trains(context, loop):
            text = context.index.source.code(value)
            whose = "the master alone has" if alone else "each replica has its own"
            message = f"{whose} {text}: they do not take the same number of steps"
            context.plan.report(OWN, value, message, "give it to all replicas first: read or reduce it")


def _decide(context: Context, statement: cst.If | cst.While) -> None:
    does = _parts_ways(context, statement)
    if not does or not _differs(context, statement.test):
        return
    text = " ".join(context.index.source.code(statement.test).split())
    message = f"each replica has its own answer to {text}: {does}"
    advice = (
        "let all replicas decide alike: reduce the number first (xm.mesh_reduce of a Python number, "
        "xm.all_reduce of a tensor)"
    )
    context.plan.report(OWN, statement.test, message, advice)


def _parts_ways(context: Context, statement: cst.If | cst.While) -> str:
    """What a replica does under a condition that another one does not, where that matters to both."""
    shared = context.replicas.alone.shared
    if any(call in shared for call in context.index.inside(statement.body, cst.Call)):
        return "not all of them reach the save"
    if isinstance(statement, cst.While):
        return "they do not take the same number of steps" if _trains(context, statement) else ""
    if context.loops.effects.of(statement.body) & ~Effect.FORWARD or _trains(context, statement):
        return "not all of them take the step"
    if _meets(context, statement):
        return "not all of them reach the collective"
    if comes_to(context.roles, statement.body, context.once(_alterations)):
        return "their models or learning rates differ from then on"
    leaving = exits(context.index, statement)
    only = all(isinstance(e, cst.Continue) for e in leaving)
    leaves = bool(leaving) and not (only and not _passes_over(context, statement))
    leaves = leaves or any(_ends(context, c) for c in context.index.inside(statement.body, cst.Call))
    around = [a for a in context.index.ancestors(statement) if isinstance(a, LOOPS)]
    if leaves and any(_trains(context, loop) for loop in around):
        return "one of them leaves where the others go on"
    return ""


def _passes_over(context: Context, statement: cst.If) -> bool:
    """Whether what all replicas do together comes behind a statement, in the same turn of its loop."""
    shared = {*context.program.calls.get("backward", ()), *context.once(_meetings)}
    shared |= {*context.once(_alterations), *context.replicas.alone.shared}
    current: cst.CSTNode = statement
    for outer in context.index.ancestors(statement):
        if isinstance(outer, (*LOOPS, cst.FunctionDef)):
            return False
        if isinstance(outer, cst.IndentedBlock):
            behind = outer.body[next(i for i, line in enumerate(outer.body) if line is current) + 1 :]
            if any(context.loops.effects.of(s) or comes_to(context.roles, s, shared) for s in behind):
                return True
        current = outer
    return False


def _ends(context: Context, call: cst.Call) -> bool:
    return context.roles.path(call.func) in _ENDS


def _meets(context: Context, statement: cst.If) -> bool:
    """Whether what all processes must call together is reached from a statement."""
    return comes_to(context.roles, statement.body, context.once(_meetings))


def _meetings(context: Context) -> list[cst.Call]:
    calls = (c for name in MEETINGS for c in context.program.calls.get(name, ()))
    return [c for c in calls if short(context.roles.path(c.func)) in MEETINGS]


def _alterations(context: Context) -> list[cst.CSTNode]:
    return alterations(context.roles)


def _trains(context: Context, statement: cst.If | cst.For | cst.While) -> bool:
    """Whether a backward pass is reached from a statement."""
    return comes_to(context.roles, statement.body, context.program.calls.get("backward", ()))
