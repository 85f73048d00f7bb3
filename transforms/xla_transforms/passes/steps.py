"""Optimizer steps: ``optimizer.step()`` becomes ``xm.optimizer_step(optimizer)``.

``xm.optimizer_step`` reduces the gradients over the replicas (nothing to do on one) and steps. Where
gradients are clipped, unscaled or read between backward and step they are reduced first and the step stays
plain: clipping each replica's own gradient and then averaging is another, smaller step. A gradient scaler
of torch_xla keeps its step; the gradients are reduced before it unscales them, so that all replicas see the
same infinite ones.
Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``optimizer_step`` and ``reduce_gradients``.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.loops.effects import Effect
from xla_transforms.loops.gradients import Gradients, Place
from xla_transforms.mapping.reasons import Reasons
from xla_transforms.plan import Planned
from xla_transforms.roles import Kind
from xla_transforms.roles.classes import is_optimizer
from xla_transforms.scalers import SCALERS, on_device, unwound
from xla_transforms.tree import method, receiver, value_of

STEP = Rule(
    "XLA611",
    "optimizer-step",
    "An optimizer's step goes through xm.optimizer_step.",
    "It averages the gradients over the replicas before it steps "
    "(pytorch/xla guide: PyTorch on XLA devices).",
)
REDUCE = Rule(
    "XLA612",
    "reduce-before-clip",
    "Gradients that are clipped or read before the step are reduced first; the step stays plain.",
    "Reduce, clip, step is what DDP does; clip, reduce, step is another step (pytorch/xla#1708).",
)
UNRESOLVED = Rule(
    "XLA614",
    "unresolved-step",
    "Something is stepped in a training loop, and the analysis does not know what it is.",
    "An optimizer's step that stays plain lets replicas train alone (pytorch/xla#2374).",
    Severity.WARNING,
    Safety.DISPLAY,
)
OUT_OF_REACH = Rule(
    "XLA615",
    "reduction-out-of-reach",
    "Gradients are used before the step, at a place where the optimizer has no name.",
    "They have to be the mean of all replicas before they are clipped or read (pytorch/xla#1708).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (STEP, REDUCE, UNRESOLVED, OUT_OF_REACH)


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    done: set[tuple[cst.CSTNode, str]] = set()
    if context.distributed and not context.sharded.active:
        _between(context, done)
    for call in _steps(context):
        base = receiver(call)
        kinds = context.roles.kinds(base)
        if kinds == {Kind.SCALER}:
            _of_scaler(context, call, done)
        elif is_optimizer(context.roles, base) and base is not None and not call.args:
            _write(context, call, base, done)
        elif _ours(context, call) and (kinds <= {Kind.NAME} or _differs(context, base)):
            _unresolved(context, call)


def _differs(context: Context, base: cst.BaseExpression | None) -> bool:
    """Whether only some of the optimizers that it may be step another one, whose step reduces."""
    facts = context.roles.facts(base) if base is not None else ()
    optimizers = {f.node for f in facts if f.kind is Kind.OPTIMIZER}
    stepping = {f.node for f in facts if f.kind is Kind.INSTANCE and f.node in optimizers}
    return bool(stepping) and bool(optimizers - stepping) and not is_optimizer(context.roles, base)


def _between(context: Context, done: set[tuple[cst.CSTNode, str]]) -> None:
    """Reduce gradients that something uses though no step follows before the next backward pass."""
    gradients = Gradients(context.loops.effects, context.replicas.averaging.averages)
    for place in gradients.between():
        if _ours(context, place.statement) and (place.statement, place.optimizer) not in done:
            done.add((place.statement, place.optimizer))
            _reduce(context, place)


def _steps(context: Context) -> Iterator[cst.Call]:
    """The calls of ``step``; of the whole program where a reduction may belong into another file."""
    for call in list(context.program.calls.get("step", ())):
        open_here = _ours(context, call) and not context.plan.taken(call)
        if method(call) == "step" and (open_here or (context.distributed and not _ours(context, call))):
            yield call


def _ours(context: Context, node: cst.CSTNode) -> bool:
    return context.roles.index(node) is context.index


def _of_scaler(context: Context, call: cst.Call, done: set[tuple[cst.CSTNode, str]]) -> None:
    base, optimizer = receiver(call), value_of(call, "optimizer", 0)
    assert base is not None
    if optimizer is None:
        return
    if unwound(context, base):
        with context.plan.together(SCALERS):
            _write(context, call, optimizer, done, step="{0}.step()")
    elif context.distributed or on_device(context):
        _write(context, call, optimizer, done, step="")


def _write(
    context: Context,
    call: cst.Call,
    optimizer: cst.BaseExpression,
    done: set[tuple[cst.CSTNode, str]],
    step: str | None = None,
) -> None:
    """Write a step. ``step`` is what stands for one that does not reduce; by default what stands there.

    A scaler that stays (``step`` empty) steps by itself: gradients are reduced before it at the latest.
    """
    places = _places(context, call, optimizer, scaled=step == "")
    if step == "" and not places and places is not None:
        statement = context.roles.index(call).statement_of(call)
        assert statement is not None
        places = [Place(statement, context.roles.index(call).source.code(optimizer))]
    for place in places or ():
        if _ours(context, place.statement) and (place.statement, place.optimizer) not in done:
            done.add((place.statement, place.optimizer))
            _reduce(context, place)
    if not _ours(context, call) or step == "":
        return
    if places == []:
        change = context.plan.change(STEP, call, "reduces the gradients over the replicas, then steps")
        change.replace(call, change.spell(context.target.optimizer_step), optimizer)
    elif step is not None:
        change = context.plan.change(REDUCE, call, "the gradients are reduced already")
        change.replace(call, step, optimizer)


def _places(
    context: Context, call: cst.Call, optimizer: cst.BaseExpression, *, scaled: bool
) -> list[Place] | None:
    """Where the gradients are reduced before the step does; across functions where there are replicas."""
    effects = context.loops.effects
    if context.distributed and context.sharded.active:
        return None  # the model reduces its gradients itself
    if context.distributed:
        averages = context.replicas.averaging.averages
        return Gradients(effects, averages, scaled=scaled).places(call, optimizer)
    gradients = Gradients(effects, scaled=scaled)
    way = gradients.way(call, optimizer)
    return [gradients.place(way, call, optimizer)] if way.first is not None else []


def _reduce(context: Context, place: Place) -> None:
    statement = place.statement
    reason = _out_of_reach(place)
    if reason:
        advice = f"write {_spelled(context)} before them, and leave the step plain"
        message = f"gradients are clipped or read here before they are reduced: {reason}"
        context.plan.report(OUT_OF_REACH, statement, message, advice)
        return
    change = context.plan.change(REDUCE, statement, "gradients are reduced before they are clipped or read")
    lines = list(_lines(context, change, place))
    behind = context.loops.effects.copies_gradients(statement)  # only behind it does the optimizer have any
    if isinstance(statement, cst.BaseSmallStatement):
        change.wrap(statement, f"{{0}}; {lines[0]}" if behind else f"{lines[0]}; {{0}}")
    elif behind:
        change.after(statement, *lines)
    else:
        change.before(statement, *lines)


def _out_of_reach(place: Place) -> str:
    """Why the reduction cannot be written, empty where it can."""
    if not place.optimizer:
        return "the optimizer has no name here"
    shared = isinstance(place.statement, cst.BaseSmallStatement)
    return "they share a line with others" if shared and (place.loops or place.tests) else ""


def _lines(context: Context, change: Planned, place: Place) -> Iterator[str]:
    indent = context.index.source.indent
    heads = [f"if {test}:" for test in reversed(place.tests)]
    heads += [f"for {target} in {iterable}:" for target, iterable in place.loops]
    for depth, head in enumerate(heads):
        yield f"{indent * depth}{head}"
    text = change.spell(context.target.reduce_gradients).replace("{0}", place.optimizer)
    yield f"{indent * len(heads)}{text}"


def _spelled(context: Context) -> str:
    return context.target.reduce_gradients.text.replace("{m}", "xm").replace("{0}", "optimizer")


def _unresolved(context: Context, call: cst.Call) -> None:
    base = receiver(call)
    facts = context.roles.facts(base) if base is not None else ()
    profiles = any(f.detail.startswith("torch.profiler.") for f in facts)
    if profiles or any(not context.roles.may_be(arg.value, Kind.OPTIMIZER) for arg in call.args):
        return
    function = context.index.function_of(call)
    loop = context.loops.of(call)
    work = context.loops.effects.of_function(function) if function is not None else Effect.NONE
    if loop is not None:
        work |= loop.effect
    if work & Effect.BACKWARD:
        name = context.index.source.code(call.func)
        reason = Reasons(context.roles).why(base, Kind.OPTIMIZER)
        context.plan.report(
            UNRESOLVED,
            call,
            f"{name}() is called beside a backward pass; whether it is an optimizer is not known: {reason}",
            "if it is, write xm.optimizer_step(...) for it",
            severity=Severity.ERROR if context.distributed else None,
        )
