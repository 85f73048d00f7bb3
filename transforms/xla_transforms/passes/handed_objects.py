"""Events, locks and queues that processes are handed: those of a launch cannot have them.

``mp.spawn`` hands them over while it starts a process; torch_xla.launch sends what its function is given
to processes that run already.
Source: pytorch/xla v2.9.0, ``torch_xla/_internal/pjrt.py``, ``run_multiprocess``: ``ProcessPoolExecutor``;
Python's ``multiprocessing/context.py``, ``assert_spawning``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles.spawns import CONTEXTS
from xla_transforms.tree import method, receiver

HANDED = Rule(
    "XLA167",
    "handed-object",
    "Processes of a launch are handed an event, a lock or a queue.",
    "It raises an error: such an object can only be inherited while a process is started "
    "(pytorch/xla v2.9.0, _internal/pjrt.py).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (HANDED,)

_OBJECTS = frozenset(
    {
        "Array", "Barrier", "BoundedSemaphore", "Condition", "Event", "JoinableQueue", "Lock", "Queue",
        "RLock", "Semaphore", "SimpleQueue", "Value",
    }
)  # fmt: skip
_PACKAGES = ("multiprocessing", "torch.multiprocessing")


def run(context: Context) -> None:
    if not context.distributed or context.already_xla or context.target.launcher_entry:
        return
    for launch in context.replicas.starts.launches:
        if context.roles.index(launch.call) is not context.index:
            continue
        for value in launch.values or ():
            if name := _made(context, value):
                _report(context, value, name)


def _made(context: Context, value: cst.BaseExpression) -> str:
    """What an object that is handed on is, where ``multiprocessing`` makes it; empty for others."""
    values = [value]
    if isinstance(value, cst.Name):
        values = [b.value for b in context.roles.bindings(value) if b.value is not None and not b.path]
    return next((name for v in values if isinstance(v, cst.Call) and (name := _object(context, v))), "")


def _object(context: Context, call: cst.Call) -> str:
    package, _, name = context.roles.path(call.func).rpartition(".")
    base = receiver(call)
    if base is not None and not package and _is_context(context, base):
        package, name = _PACKAGES[0], method(call)
    return name if package in _PACKAGES and name in _OBJECTS else ""


def _is_context(context: Context, base: cst.BaseExpression) -> bool:
    """Whether an expression is what ``get_context()`` gave."""
    values = [base]
    if isinstance(base, cst.Name):
        values = [b.value for b in context.roles.bindings(base) if b.value is not None]
    made = [v for v in values if isinstance(v, cst.Call) and context.roles.path(v.func) in CONTEXTS]
    return bool(made) and len(made) == len(values)


def _report(context: Context, value: cst.BaseExpression, name: str) -> None:
    text = context.index.source.code(value)
    message = f"torch_xla.launch cannot hand {text} to its processes: an object of multiprocessing.{name}"
    advice = (
        f"let a manager hold it: manager = torch.multiprocessing.Manager(), kept until all have ended, "
        f"and manager.{name}()"
    )
    context.plan.report(HANDED, value, message, advice)
