"""Process groups: XLA's replicas know one another without any; where one is needed it is on XLA's backend.

What joins and leaves the group goes, with what is said only so that the processes find one another.
Source: pytorch/xla v2.9.0, ``torch_xla/distributed/xla_backend.py`` (``xla://``) and the guide "How to do
DistributedDataParallel": the runtime knows rank and world size.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.replicas.collectives import short
from xla_transforms.roles import Kind
from xla_transforms.roles.spawns import SPAWNERS
from xla_transforms.statements import bare, live_calls, migrating
from xla_transforms.targets.base import Target
from xla_transforms.tree import method, receiver, walk

LEFT = Rule(
    "XLA131",
    "process-group-left",
    "Training in several processes is left as it is: only what each process does is migrated.",
    "Process groups on nccl need CUDA; torch_xla.launch starts one process for each device, and "
    "xm.optimizer_step reduces the gradients (pytorch/xla v2.9.0).",
    Severity.WARNING,
    Safety.DISPLAY,
)
GONE = Rule(
    "XLA132",
    "process-group-gone",
    "The process group goes: XLA's replicas know one another by the runtime.",
    "Nothing that is left asks for a group; a group on nccl raises without CUDA (pytorch/xla v2.9.0).",
)
BACKEND = Rule(
    "XLA133",
    "process-group-backend",
    "A process group that something still needs is joined on XLA's backend.",
    "init_method='xla://' takes rank and world size from the runtime (pytorch/xla v2.9.0, xla_backend.py).",
)
RULES = (LEFT, GONE, BACKEND)



def run(context: Context) -> None:
    if not migrating(context) or context.already_xla:
        return
    if not context.distributed:
        _tell(context)
    elif context.replicas.groups.needed:
        _on_xla(context)
    else:
        _leave(context)


def _advice(target: Target) -> dict[str, str]:
    group = f"import {target.process_group_module} and write {target.process_group.shown()}"
    return {
        "torch.distributed.init_process_group": group,
        "torch.nn.parallel.DistributedDataParallel": "leave it out: xm.optimizer_step reduces gradients",
        **dict.fromkeys(SPAWNERS, target.to_start),
    }


def _tell(context: Context) -> None:
    """Several processes that the user wants as one, or that do not train together."""
    advice_on = _advice(context.target)
    for call, path in live_calls(context):
        if path in advice_on:
            name = path.rpartition(".")[2]
            context.plan.report(LEFT, call, f"{name} is for several processes and is left", advice_on[path])
        elif method(call) == "share_memory" and context.roles.may_be(receiver(call), Kind.MODEL):
            advice = "let each process have a model of its own, and reduce the gradients"
            context.plan.report(LEFT, call, "processes cannot share what is on an XLA device", advice)


def _on_xla(context: Context) -> None:
    for call, path in live_calls(context):
        if short(path) == "init_process_group":
            needed = context.replicas.groups.needed[0]
            change = context.plan.change(BACKEND, call, "something that is left needs a process group")
            change.replace(call, change.spell(context.target.process_group))
            change.use(context.target.process_group_module)
            name = context.roles.path(needed.func).rpartition(".")[2]
            line = context.program.line_of(needed, context.index)
            message = f"the process group stays, on XLA's backend: {name} (line {line}) needs it"
            context.plan.report(BACKEND, call, message, fixed=True)


def _leave(context: Context) -> None:
    groups = context.replicas.groups
    for function in groups.setups:
        if context.roles.index(function) is context.index:
            change = context.plan.change(GONE, function, "the function only joined or left the group")
            change.remove(function)
    for call in list(context.index.all(cst.Call)):
        statement = bare(context, call)
        goes = groups.joins(call) or groups.sets_up(call)
        if statement is not None and goes and context.plan.free(call):
            change = context.plan.change(GONE, call, "the replicas know one another by the runtime")
            change.remove(statement)
    gone = [s for s in context.index.all(cst.Assign, cst.Expr) if groups.addresses(s)]
    for small in gone:
        if not context.plan.taken(small):
            change = context.plan.change(GONE, small, "no process has to be told where the others are")
            change.remove(small)
    while asked := [a for a in context.index.all(cst.Assign) if _only_asked(context, a, gone)]:
        for assign in asked:
            change = context.plan.change(GONE, assign, "it was only asked where the others are")
            change.remove(assign)
        gone += asked


def _only_asked(context: Context, assign: cst.CSTNode, gone: list[cst.CSTNode]) -> bool:
    """``nodes = os.environ["SLURM_NODELIST"]``: asks for hosts, and only statements that go read it."""
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1 or context.plan.taken(assign):
        return False
    target = assign.targets[0].target
    if not isinstance(target, cst.Name):
        return False
    scope = context.index.scope_of(target)
    reads = [n for n in context.index.named_of(scope, target.value) if n is not target]
    if not reads or isinstance(scope.node, cst.Module):
        return False
    if not all(any(context.index.within(read, statement) for statement in gone) for read in reads):
        return False
    parts = [n for n in walk(assign.value) if isinstance(n, (cst.Call, cst.Subscript))]
    return context.replicas.groups.asks_for_hosts(parts)
