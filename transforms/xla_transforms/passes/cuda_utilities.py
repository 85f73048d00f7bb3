"""CUDA utilities: waiting, housekeeping, settings and questions about the GPU.

``torch.cuda.synchronize()`` becomes the barrier that waits, ``torch_xla.sync(wait=True)``:
``xm.wait_device_ops()`` alone would not launch what is pending. What only keeps CUDA's house goes away.
Source: pytorch/xla v2.9.0, ``torch_xla/torch_xla.py``, ``sync``; ``core/xla_model.py``, ``xla_device_kind``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.lightning import counted
from xla_transforms.roles import Kind
from xla_transforms.roles.ranks import COUNTS
from xla_transforms.statements import bare, live_calls, migrating, path_of, reads_of, write_wait
from xla_transforms.targets.base import Spelling
from xla_transforms.tree import method, receiver

SYNCHRONIZE = Rule(
    "XLA201",
    "synchronize",
    "Waiting for the GPU becomes a barrier that waits: torch_xla.sync(wait=True).",
    "torch.cuda.synchronize raises without CUDA; xm.wait_device_ops() alone launches nothing "
    "(pytorch/xla v2.9.0, torch_xla.py, sync).",
)
EXTRA = Rule(
    "XLA202",
    "synchronize-twice",
    "A second wait in the same iteration cuts its graph in two.",
    "Each barrier with work before it is an execution of its own (pytorch/xla#3119).",
    safety=Safety.DISPLAY,
)
HOUSEKEEPING = Rule(
    "XLA203",
    "cuda-housekeeping",
    "Calls that keep CUDA's own house (caches, statistics, contexts) go away.",
    "They raise or do nothing without CUDA; the XLA runtime has no counterpart.",
)
QUERY = Rule(
    "XLA205",
    "device-query",
    "A question about the GPU is put to the XLA device.",
    "torch.cuda.get_device_name raises without CUDA (pytorch/xla v2.9.0, xla_model.py and runtime.py).",
)
CAPABILITY = Rule(
    "XLA206",
    "compute-capability",
    "A CUDA compute capability is read; (8, 0) stands in for it.",
    "XLA devices have none. 8.0 is the first generation with bfloat16, which XLA devices compute in.",
    Severity.WARNING,
)
MEMORY_ERROR = Rule(
    "XLA207",
    "out-of-memory",
    "CUDA's out-of-memory error is caught, which XLA does not raise.",
    "XLA runs out of memory with a RuntimeError (RESOURCE_EXHAUSTED), and only where the graph is run.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (SYNCHRONIZE, EXTRA, HOUSEKEEPING, QUERY, CAPABILITY, MEMORY_ERROR)

_WAITS = frozenset({"torch.cuda.synchronize", "torch.accelerator.synchronize"})
_HOUSE = frozenset(
    f"torch.{module}.{name}"
    for module in ("cuda", "accelerator", "accelerator.memory")
    for name in (
        "empty_cache", "ipc_collect", "init", "reset_peak_memory_stats", "reset_max_memory_allocated",
        "reset_max_memory_cached", "reset_accumulated_memory_stats", "set_per_process_memory_fraction",
        "set_sync_debug_mode", "profiler.start", "profiler.stop", "profiler.init", "caching_allocator_enable",
        "memory._record_memory_history", "_record_memory_history", "_dump_snapshot",
    )
)  # fmt: skip
_PROPERTIES = frozenset({"name", "major", "minor", "total_memory"})
_BY_HAND = "decide by hand what depends on it"
_OOM = frozenset({"torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError"})


def run(context: Context) -> None:
    if not migrating(context):
        return
    for call, path in live_calls(context):
        statement = bare(context, call)
        if path in _WAITS or _waits_for_stream(context, call):
            _wait(context, call)
        elif statement is not None and (path in _HOUSE or _is_cudart(context, call)):
            change = context.plan.change(HOUSEKEEPING, call, "there is no CUDA context to look after")
            change.remove(statement)
        else:
            _question(context, call, path)
    kinds = (cst.Attribute, cst.Name) if context.program.says("OutOfMemoryError") else ()
    for node in context.index.all(*kinds):
        if _caught(context, node) and path_of(context, node) in _OOM:
            message = "XLA raises RuntimeError (RESOURCE_EXHAUSTED) at the barrier that runs the graph"
            advice = "catch RuntimeError around the barrier, if at all"
            context.plan.report(MEMORY_ERROR, node, message, advice)


def _caught(context: Context, node: cst.CSTNode) -> bool:
    return isinstance(context.index.parent(node), (cst.ExceptHandler, cst.Arg, cst.Element))


def _waits_for_stream(context: Context, call: cst.Call) -> bool:
    base = receiver(call)
    return method(call) == "synchronize" and base is not None and context.roles.is_a(base, Kind.STREAM)


def _is_cudart(context: Context, call: cst.Call) -> bool:
    base = receiver(call)
    return isinstance(base, cst.Call) and path_of(context, base.func) == "torch.cuda.cudart"


def _wait(context: Context, call: cst.Call) -> None:
    loop, statement = context.loops.of(call), bare(context, call)
    kept = context.loops.synchronized(loop) if loop is not None else None
    if loop is not None and statement is not None and kept is not None and kept is not call:
        if _before_work(context, call, loop.body):
            change = context.plan.change(SYNCHRONIZE, call, "the iteration before ended with a wait")
            change.remove(statement)
            return
        context.plan.report(EXTRA, call, "a wait in mid-iteration runs its part of the step by itself")
    change = context.plan.change(SYNCHRONIZE, call, "runs what is pending and waits for it")
    write_wait(context, change, call)


def _before_work(context: Context, call: cst.Call, body: list[cst.CSTNode]) -> bool:
    """Whether a call comes in an iteration before anything that gives the device work."""
    for statement in body:
        if context.index.within(call, statement):
            return True
        if context.loops.effects.of(statement):
            return False
    return False


def _question(context: Context, call: cst.Call, path: str) -> None:
    target = context.target
    answers: dict[str, Spelling] = {
        "torch.cuda.get_device_name": target.device_kind,
        "torch.cuda.device_count": target.world_size,
        "torch.accelerator.device_count": target.world_size,
        "torch.cuda.current_device": target.device,
        "torch.accelerator.current_device_index": target.device,
        "torch.accelerator.current_device_idx": target.device,
    }
    early = context.distributed and context.replicas.starts.before(call)
    if path in COUNTS and (early or context.already_xla):
        return  # the runtime must not be asked before a launch; who needs the number is told so
    if path in COUNTS and context.frameworks.lightning:  # which starts the processes
        if counted(context.roles, call):
            change = context.plan.change(QUERY, call, "Lightning counts the XLA devices by itself")
            change.replace(call, '"auto"')
        return
    if path in answers:
        spelling = answers[path]
        if spelling is target.device and _counted(context, call):
            spelling = target.local_ordinal
        change = context.plan.change(QUERY, call, "the XLA runtime answers instead of CUDA")
        change.replace(call, change.spell(spelling))
    elif path == "torch.cuda.get_device_capability":
        message = "(8, 0) stands in: no XLA device has a compute capability"
        change = context.plan.change(CAPABILITY, call, message)
        change.replace(call, "(8, 0)")
        context.plan.report(CAPABILITY, call, message, _BY_HAND, fixed=True)
    elif path == "torch.cuda.get_device_properties":
        _properties(context, call)
    elif path == "torch.cuda.initial_seed":
        change = context.plan.change(QUERY, call, "one seed serves the CPU and the device")
        change.replace(call, f"{change.use('torch')}.initial_seed()")


def _counted(context: Context, call: cst.Call) -> bool:
    """Whether a device's number is used as a number: compared, computed with, an index."""
    kinds = (cst.ComparisonTarget, cst.Comparison, cst.BinaryOperation, cst.Index)
    return isinstance(context.index.parent(call), kinds)


def _properties(context: Context, call: cst.Call) -> None:
    """``torch.cuda.get_device_properties(0).name``, or ``.name`` of the variable that holds the answer."""
    reads = reads_of(context, call)
    if not reads or any(read.attr.value not in _PROPERTIES for read in reads):
        return
    for read in reads:
        name = read.attr.value
        if name == "name":
            change = context.plan.change(QUERY, read, "the XLA runtime answers instead of CUDA")
            change.replace(read, change.spell(context.target.device_kind))
        elif name in ("major", "minor"):
            message = "8.0 stands in: no XLA device has a compute capability"
            change = context.plan.change(CAPABILITY, read, message)
            change.replace(read, "8" if name == "major" else "0")
            context.plan.report(CAPABILITY, read, message, _BY_HAND, fixed=True)
    statement = context.index.parent(call)
    if isinstance(statement, (cst.Assign, cst.AnnAssign)):
        change = context.plan.change(QUERY, call, "each property is asked for where it is read")
        change.remove(statement)
