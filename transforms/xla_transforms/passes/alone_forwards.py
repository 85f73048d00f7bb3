"""What the master alone computes or saves in the middle of a step: before it does, all replicas end the step.

The step is pending then, its reduction with it. Run together with the master's own work it would be another
program than on the other replicas, and the reductions would not meet.
Source: pytorch/xla#1795; pytorch/xla v2.9.0, the guide "PyTorch on XLA devices": lazy tensors.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.guarding import Guards
from xla_transforms.loops import Effect
from xla_transforms.replicas import Master
from xla_transforms.replicas.reach import reachable
from xla_transforms.replicas.withheld import decorators, makings
from xla_transforms.roles import Kind
from xla_transforms.roles.ranks import PLACES
from xla_transforms.tree import LOOPS, body_of, method, receiver, walk

FENCED = Rule(
    "XLA604",
    "step-before-alone",
    "All replicas end the step before the master alone runs a model, or saves one.",
    "A graph that holds a reduction and what one replica alone computes meets no other (pytorch/xla#1795).",
)
UNFENCED = Rule(
    "XLA605",
    "alone-in-a-step",
    "The master alone runs or saves a model in the middle of a step.",
    "The step's reduction would be in a graph that no other replica has: they wait for each other "
    "(pytorch/xla#1795).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (FENCED, UNFENCED)


_STATES = frozenset({"push_to_hub", "save_pretrained", "state_dict"})


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    guards = Guards(context)
    kept = {region.node for region in guards.saving if region.obstacle and not context.target.save_waits}
    opened = {region.node: region for region in guards.saving if not region.obstacle}
    for guard, master in context.replicas.alone.of_module(context.index):
        own = [s for run in opened[guard].runs for s in run] if guard in opened else [guard.body]
        runs = any(_runs(context, part) for part in _stays(context, guards, guard, master))
        if guard in kept or runs or any(_states(context, part) for part in own):
            _fence(context, guards, guard, master)
    for place in _others(context):
        _fence(context, guards, place, Master(only=True))


def _others(context: Context) -> Iterator[cst.CSTNode | None]:
    """Statements in which the master alone comes to a model by something else than an ``if`` of its own."""
    alone = context.replicas.alone
    for match in context.index.all(cst.Match):
        cases = match.cases if isinstance(match, cst.Match) and _asks_rank(context, match) else ()
        if any(_needs_device(context, case.body) for case in cases):
            yield match
    for call, _ in context.reached:
        chosen = call in alone.shared and alone.choosing(call) is not None
        if chosen or (_leaves_then_runs(context, call) and not any(True for _ in alone.guards(call))):
            yield context.index.statement_of(call)


def _asks_rank(context: Context, match: cst.Match) -> bool:
    return context.replicas.number(match.subject) in PLACES


def _needs_device(context: Context, node: cst.CSTNode) -> bool:
    return _runs(context, node) or _states(context, node)


def _stays(context: Context, guards: Guards, guard: cst.If, master: Master) -> list[cst.CSTNode]:
    """The statements of a guard that the master alone runs in the step: what step closures show is computed
    by all replicas before, and what runs in one comes behind the barrier."""
    if any(context.index.within(guard, line) for line in guards.lines):
        return []
    shown = guards.lines if not guards.region(guard, master).obstacle else frozenset()
    return [statement for statement in body_of(guard) if statement not in shown]


def _runs(context: Context, node: cst.CSTNode) -> bool:
    """Whether a model is run, be it in the loops of what is called."""
    effects = context.loops.effects
    if effects.of(node) & Effect.FORWARD:
        return True
    blocks = [node, *(f.body for f in reachable(context.roles, node))]
    return any(isinstance(n, LOOPS) and effects.is_step_loop(n) for block in blocks for n in walk(block))


def _states(context: Context, node: cst.CSTNode) -> bool:
    """Whether the state of a model or an optimizer is taken, to be saved one way or another."""
    blocks = [node, *(f.body for f in reachable(context.roles, node)), *_lambdas(context, node)]
    calls = (n for block in blocks for n in walk(block) if method(n) in _STATES)
    kinds = (context.roles.kinds(receiver(call)) for call in calls)
    return any(found & {Kind.MODEL, Kind.OPTIMIZER} for found in kinds)


def _lambdas(context: Context, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for call in (n for n in walk(node) if isinstance(n, cst.Call)):
        yield from (f.node.body for f in context.roles.facts(call.func) if isinstance(f.node, cst.Lambda))


def _leaves_then_runs(context: Context, call: cst.Call) -> bool:
    """Whether a function that is called lets the master alone come to a forward pass."""
    functions = [f.node for f in context.roles.facts(call.func) if f.kind is Kind.FUNCTION]
    return any(_kept(context, f) for f in functions if isinstance(f, cst.FunctionDef))


def _kept(context: Context, function: cst.FunctionDef) -> bool:
    return any(_needs_device(context, part) for part in _alone(context, function))


def _alone(context: Context, function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
    """The statements of a function that the master alone reaches, behind no guard of their own."""
    alone = context.replicas.alone
    behind = any(True for _ in decorators(alone, function)) or bool(makings(alone, function))
    for statement in body_of(function):
        if behind:
            yield statement
            continue
        master = context.replicas.master(statement.test) if isinstance(statement, cst.If) else None
        if isinstance(statement, cst.If) and master is not None:
            behind = not master.only and not master.rest and _ends(statement)


def _ends(statement: cst.If) -> bool:
    """Whether the last statement of a block leaves its function, with a value or without: the only way."""
    lines = body_of(statement)
    smalls = body_of(lines[-1]) if lines and isinstance(lines[-1], cst.SimpleStatementLine) else lines
    return bool(smalls) and isinstance(smalls[-1], cst.Return) and statement.orelse is None


def _fence(context: Context, guards: Guards, place: cst.CSTNode | None, master: Master) -> None:
    if place is None or context.replicas.alone.parted(place) or not guards.pending(place):
        return
    if not guards.fenceable(master):
        message = "the master goes on alone here, while the step before is pending on all replicas"
        advice = f"write {context.target.sync.shown()} above, where all replicas come"
        context.plan.report(UNFENCED, place, message, advice)
        return
    change = context.plan.change(FENCED, place, "all replicas end the step before the master goes on alone")
    sync = change.spell(context.target.sync)
    if master.rest:
        tests = [context.index.source.code(part) for part in master.rest]
        several = len(tests) > 1
        test = " and ".join(f"({t})" if several else t for t in tests)
        change.before(place, f"if {test}:", f"{context.index.source.indent}{sync}")
    else:
        change.before(place, sync)
