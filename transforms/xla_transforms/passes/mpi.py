"""mpi4py's communicator of all processes: what the replicas tell one another goes through torch_xla.

``torch_xla.launch`` starts the processes, and each of them is a world of its own to MPI. Calls that move
Python objects have a counterpart; those that fill buffers, and groups of processes, have not.
Sources: mpi4py 4, ``MPI.Comm``: ``bcast``, ``allgather``, ``allreduce``, ``barrier``; pytorch/xla v2.9.0,
``torch_xla/core/xla_model.py``, ``mesh_reduce`` and ``rendezvous``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles.calls import callers
from xla_transforms.roles.ranks import MPI_WORLD
from xla_transforms.statements import live_calls
from xla_transforms.tree import has_star, value_of

TOLD = Rule(
    "XLA158",
    "mpi-collective",
    "What processes tell one another through mpi4py goes through torch_xla.",
    "Processes that torch_xla.launch starts are not MPI's: each is a world of one to it "
    "(pytorch/xla v2.9.0, torch_xla.py, launch).",
)
LEFT = Rule(
    "XLA159",
    "mpi-left",
    "A call of mpi4py's communicator is left; it reaches no other replica.",
    "Processes that torch_xla.launch starts are not MPI's: each is a world of one to it "
    "(pytorch/xla v2.9.0, torch_xla.py, launch).",
    Severity.ERROR,
    Safety.DISPLAY,
)
ALONE = Rule(
    "XLA180",
    "mpi-of-some",
    "Some replicas alone call a function in which processes tell one another something through mpi4py.",
    "MPI may send without waiting for who receives; xm.mesh_reduce waits for every replica "
    "(MPI 4.1, Collective Communication; pytorch/xla v2.9.0, torch_xla/core/xla_model.py, mesh_reduce).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (TOLD, LEFT, ALONE)

_REDUCTIONS = {"mpi4py.MPI.SUM": "sum", "mpi4py.MPI.MAX": "max", "mpi4py.MPI.MIN": "min"}
_NUMBERS = frozenset({"Get_rank", "Get_size", "Get_name"})
_SENT = {"bcast": "obj", "allreduce": "sendobj", "allgather": "sendobj"}  # the parameter of what is sent


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    told: dict[cst.FunctionDef | None, cst.Call] = {}
    for call, path in live_calls(context):
        world, _, name = path.rpartition(".")
        if world != MPI_WORLD or name in _NUMBERS:
            continue
        if _write(context, call, name):
            told.setdefault(context.index.function_of(call), call)
        else:
            advice = "write xm.mesh_reduce for objects, xm.all_reduce or xm.all_gather for tensors"
            message = f"{name} reaches no other replica: each process is a world of its own to MPI"
            context.plan.report(LEFT, call, message, advice)
    for function, call in told.items():
        site = _of_some(context, function) if function is not None else None
        if site is not None:
            source = context.roles.index(site).source
            message = f"some replicas alone come here, by {source.path}:{source.span(site).line}, and wait"
            context.plan.report(ALONE, call, message, "let all replicas make that call")


def _of_some(context: Context, function: cst.FunctionDef) -> cst.Call | None:
    """A call that some replicas alone make, and that leads to a function."""
    waiting, seen = [function], {function}
    while waiting:
        for site, _ in callers(context.roles, waiting.pop()):
            if context.replicas.alone.chosen(site):
                return site
            outer = context.roles.index(site).function_of(site)
            if outer is not None and outer not in seen:
                seen.add(outer)
                waiting.append(outer)
    return None


def _write(context: Context, call: cst.Call, name: str) -> bool:
    if has_star(call):
        return False
    tag = f'"{context.index.function_name(call)}_{name.lower()}"'
    if name.lower() == "barrier" and not call.args:
        change = context.plan.change(TOLD, call, "all replicas meet before they go on")
        change.replace(call, change.spell(context.target.rendezvous).replace("{0}", tag))
        return True
    value = value_of(call, _SENT[name], 0) if name in _SENT else None
    taken = _taken(context, call, name)
    if value is None or not taken:
        return False
    change = context.plan.change(TOLD, call, f"{name} of torch_xla's replicas")
    change.replace(call, change.spell(context.target.mesh_reduce).format(tag, "{0}", taken), value)
    return True


def _taken(context: Context, call: cst.Call, name: str) -> str:
    """The function that makes the result of what all replicas sent."""
    if name == "allgather":
        return "list"
    if name == "bcast":
        root = value_of(call, "root", 1)
        return f"lambda sent: sent[{context.index.source.code(root) if root is not None else '0'}]"
    op = value_of(call, "op", 1)
    return "sum" if op is None else _REDUCTIONS.get(context.roles.path(op), "")
