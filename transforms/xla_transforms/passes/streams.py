"""Streams, NVTX ranges and CUDA graphs: how CUDA orders, names and records its work.

XLA has no streams (its runtime orders transfers and executions by itself), its graph is the lazy trace, and
its profiler's ranges are ``xp.Trace``.
Sources: pytorch/xla v2.9.0, ``torch_xla/debug/profiler.py``, ``Trace``; guide "PyTorch/XLA overview".
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.branches import Branches
from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles import Kind
from xla_transforms.statements import bare, leave_with, live_calls, migrating, sole_target
from xla_transforms.tree import method, receiver, same

STREAM = Rule(
    "XLA241",
    "stream",
    "CUDA streams go away: the XLA runtime orders its work by itself.",
    "torch.cuda.Stream() raises without CUDA; transfers and executions are asynchronous on XLA anyway.",
)
STREAM_LEFT = Rule(
    "XLA242",
    "stream-left",
    "A CUDA stream is used in a way that is not understood and is left.",
    "torch.cuda.Stream() raises without CUDA.",
    Severity.ERROR,
    Safety.DISPLAY,
)
RANGE = Rule(
    "XLA243",
    "nvtx-range",
    "An NVTX range becomes a trace of the XLA profiler; pushes and pops go away.",
    "NVTX annotates CUDA's profiler; xp.Trace is the range of XLA's (pytorch/xla v2.9.0, debug/profiler.py).",
)
GRAPH = Rule(
    "XLA244",
    "cuda-graph",
    "CUDA graphs have no counterpart and have to be taken out by hand.",
    "XLA records the step as a graph by itself, at every barrier; capture and replay raise without CUDA.",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (STREAM, STREAM_LEFT, RANGE, GRAPH)

_MESSAGE = "the runtime orders its work by itself"
_MAKERS = frozenset(
    f"torch.cuda.{n}" for n in ("Stream", "ExternalStream", "current_stream", "default_stream")
)
_ORDER = frozenset({"wait_stream", "wait_event", "record_stream", "record_event"})
_GRAPHS = frozenset(
    f"torch.cuda.{n}" for n in ("CUDAGraph", "graph", "make_graphed_callables", "graph_pool_handle")
)
_MARKS = frozenset(
    f"torch.cuda.nvtx.{n}" for n in ("range_push", "range_pop", "mark", "range_start", "range_end")
)


def run(context: Context) -> None:
    if not migrating(context):
        return
    for call, path in live_calls(context):
        statement, item = bare(context, call), context.index.parent(call)
        if path in _GRAPHS:
            advice = "run the step itself where the graph is replayed; the barrier records and runs it"
            context.plan.report(GRAPH, call, "a CUDA graph has no counterpart", advice)
        elif path in _MARKS and statement is not None:
            context.plan.change(RANGE, call, "NVTX annotates CUDA's profiler alone").remove(statement)
        elif path == "torch.cuda.nvtx.range" and isinstance(item, cst.WithItem):
            _range(context, call, item)
        elif path in ("torch.autograd.profiler.emit_nvtx", "torch.cuda.profiler.profile"):
            if isinstance(item, cst.WithItem):
                leave_with(context, context.plan.change(RANGE, item, "there is no CUDA profiler"), item)
        elif path == "torch.cuda.stream" and isinstance(item, cst.WithItem):
            _leave_stream(context, item)
        elif statement is not None and (path == "torch.cuda.set_stream" or _orders(context, call)):
            context.plan.change(STREAM, call, _MESSAGE).remove(statement)
    for call, path in live_calls(context):
        if path in _MAKERS and bare(context, call) is None:
            _unmake(context, call)


def _range(context: Context, call: cst.Call, item: cst.WithItem) -> None:
    block = getattr(context.index.parent(item), "body", None)
    if not call.args or item.asname is not None:
        return
    if isinstance(block, cst.IndentedBlock) and Branches(context).emptied_block(block):
        leave_with(context, context.plan.change(RANGE, item, "nothing is left in the range"), item)
        return
    message, values = call.args[0].value, call.args[1:]
    change = context.plan.change(RANGE, call, "a range of XLA's profiler")
    text = change.spell(context.target.trace)
    if values:
        rest = ", ".join(context.index.source.code(a) for a in values)
        change.replace(call, text.replace("{0}", "{0}.format({1})"), message, rest)
    else:
        change.replace(call, text, message)


def _leave_stream(context: Context, item: cst.WithItem) -> None:
    if item.asname is None:
        leave_with(context, context.plan.change(STREAM, item, _MESSAGE), item)
        return
    message = "this with statement needs a CUDA stream, under a name that is used"
    context.plan.report(STREAM_LEFT, item, message, "take the statement away by hand, and what uses the name")


def _orders(context: Context, call: cst.Call) -> bool:
    base, name = receiver(call), method(call)
    if name not in _ORDER or base is None:
        return False
    if name == "record_stream":
        return context.roles.kinds(base) <= {Kind.TENSOR}
    return context.roles.kinds(base) <= {Kind.STREAM, Kind.EVENT}


def _unmake(context: Context, call: cst.Call) -> None:
    """A stream nobody needs any more: its line goes, or ``None`` stands where a value must."""
    change = context.plan.change(STREAM, call, _MESSAGE)
    statement = context.index.parent(call)
    target = sole_target(statement)
    named = target if target is not None else _unpacked(context, call)
    reads = _reads(context, named) if named is not None else []
    if target is not None and statement is not None and all(_goes(context, r) for r in reads):
        change.remove(statement)
        return
    change.replace(call, "None")
    for read in reads:
        if not _goes(context, read):
            advice = "streams order CUDA's work; take this use away by hand"
            message = "this use of a stream stays, but the stream is None"
            context.plan.report(STREAM_LEFT, read, message, advice)


def _unpacked(context: Context, call: cst.Call) -> cst.BaseExpression | None:
    """``stream`` for the call in ``stream, graph = torch.cuda.Stream(), made()``."""
    element = context.index.parent(call)
    values = context.index.parent(element) if element is not None else None
    target = sole_target(context.index.parent(values)) if values is not None else None
    if not isinstance(values, cst.Tuple) or not isinstance(target, cst.Tuple):
        return None
    several = any(isinstance(e, cst.StarredElement) for e in (*values.elements, *target.elements))
    if several or len(values.elements) != len(target.elements):
        return None
    pairs = zip(target.elements, values.elements, strict=True)
    return next((name.value for name, value in pairs if value is element), None)


def _reads(context: Context, target: cst.BaseExpression) -> list[cst.CSTNode]:
    kind = type(target)
    found = [n for n in context.index.all(kind) if n is not target and same(n, target)]
    return [n for n in found if not isinstance(context.index.parent(n), cst.AssignTarget)]


def _goes(context: Context, read: cst.CSTNode) -> bool:
    """Whether a read of a stream is taken out together with what reads it."""
    if context.plan.taken(read):
        return True
    changed = {p.node for p in context.plan.planned if p.sites and p.rule is STREAM}
    return any(a in changed for a in context.index.ancestors(read) if isinstance(a, cst.WithItem))
