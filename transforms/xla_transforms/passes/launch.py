"""Starting the processes: ``torch_xla.launch`` runs a function in one process for each device.

What ``mp.spawn``, or a loop of ``Process``, started is started by it, its first argument still being the
process's number. Where a launcher outside of the script starts the processes, each calls the function itself.
Source: pytorch/xla v2.9.0, ``torch_xla/torch_xla.py``, ``launch``: no ``nprocs``, no ``join``; the function
has to be one that can be pickled, and nothing may touch the device before.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.plan import Planned
from xla_transforms.replicas import INDEX, LOCAL_WORLD_SIZE, RANK, WORLD_SIZE, Launch
from xla_transforms.replicas.collectives import short
from xla_transforms.roles.calls import callers
from xla_transforms.roles.spawns import SPAWNERS
from xla_transforms.tree import argument, head_of

SPAWN = Rule(
    "XLA161",
    "launch",
    "Processes are started by torch_xla.launch, one for each device.",
    "mp.spawn knows nothing of XLA's devices; how many there are is the runtime's to say "
    "(pytorch/xla v2.9.0, torch_xla.py).",
)
LEFT = Rule(
    "XLA163",
    "launch-left",
    "A start of processes could not be written anew.",
    "torch_xla.launch takes a function of a module and waits for its processes.",
    Severity.ERROR,
    Safety.DISPLAY,
)
REPEATED = Rule(
    "XLA164",
    "start-repeated",
    "Each process does what the one that started them did.",
    "SageMaker's launcher imports the script and calls _mp_fn in each process: nothing runs before, in one "
    "alone (AWS, \"Bring your own deep learning model\" of SageMaker Training Compiler).",
    Severity.INFO,
    Safety.DISPLAY,
)
RULES = (SPAWN, LEFT, REPEATED)


def run(context: Context) -> None:
    if context.already_xla or not (context.uses_cuda or context.replicas.stranded):
        return
    if context.replicas.asked and context.replicas.obstacle:
        _tell(context)
    if not context.replicas.active:
        return
    _repeated(context)
    starts = context.replicas.starts
    for launch in starts.launches:
        if context.roles.index(launch.call) is context.index and context.plan.free(launch.call):
            _launch(context, launch)
        if launch.function is not None and context.roles.index(launch.function) is context.index:
            _parameters(context, launch)
    _handed(context)
    _unused(context)


def _tell(context: Context) -> None:
    """What stands in the way, where the module starts processes or has them meet; else at its beginning."""
    calls = (c for c, path in context.reached if path in SPAWNERS or short(path) == "init_process_group")
    left = context.speaks_of_gpu and context.replicas.stranded
    first = context.index.source.module.body[:1] if left or len(context.program.modules) == 1 else []
    place = next(calls, next(iter(first), None))
    if place is None:
        return
    blocking, message, advice = context.replicas.starts.blocked[0]
    advice = advice or context.target.to_start
    if blocking is None:
        advice = f"migrate the program that this belongs to as a whole, or {advice}"
    elif context.index.source.is_notebook:
        advice = "write it in a module that the notebook imports, or train on one device (--no-distributed)"
    elif blocking is not context.index:
        message = f"{message}, in {blocking.source.path}: this is left with it"
    elif context.replicas.stranded:
        advice = f"{advice}; until then the program is left as it is"
    context.plan.report(LEFT, place, message + _shared(context), advice)


def _shared(context: Context) -> str:
    """What of a script that is left is migrated for others: it does not run before its start is mended."""
    paths = ", ".join(context.migrated_apart)
    return f"; {paths}, which other scripts use, is migrated for them" if paths else ""


def _repeated(context: Context) -> None:
    """What is printed by each process, since a launcher outside of the script starts them all."""
    for call in context.replicas.starts.repeats.prints if context.target.launcher_entry else ():
        if context.roles.index(call) is context.index:
            message = "each process prints this; natively the one that started them did"
            advice = f"put it under if {context.target.is_master.shown()}"
            context.plan.report(REPEATED, call, message, advice)


def _launch(context: Context, launch: Launch) -> None:
    given, function = argument(launch.call, "args", 1), launch.spawn.target
    change = context.plan.change(SPAWN, launch.call, "one process for each XLA device")
    assert function is not None
    if launch.values is None and given is not None:
        _start(context, change, launch, _template(context, change, "*{1}"), [function, given.value])
        return
    dropped = context.replicas.counts.dropped(launch)
    kept = [v for i, v in enumerate(launch.values or []) if i not in dropped]
    _write(context, change, launch, function, kept)


def _start(
    context: Context, change: Planned, launch: Launch, template: str, parts: list[cst.BaseExpression]
) -> None:
    """Write the start in the place of the call, or of the statements that start processes and wait."""
    if launch.spawn.made is not None:
        change.remove(launch.spawn.made)
    if not launch.spawn.statements:
        change.replace(launch.call, template, *parts)
        return
    first, last = launch.spawn.statements
    for statement in launch.spawn.statements:
        context.plan.claim(statement, change.id)
    indent, newline = context.plan.indentation(first), context.index.source.newline
    change.replace_statements(
        first, last, lambda render: f"{indent}{template.format(*map(render, parts))}{newline}"
    )


def _write(
    context: Context,
    change: Planned,
    launch: Launch,
    function: cst.BaseExpression,
    kept: list[cst.BaseExpression],
) -> None:
    parts = ", ".join(f"{{{i + 1}}}" for i in range(len(kept)))
    _start(context, change, launch, _template(context, change, parts), [function, *kept])


def _template(context: Context, change: Planned, parts: str) -> str:
    """The call that runs ``{0}`` with its number and ``parts``: other arguments, or ``*`` of a tuple."""
    target = context.target
    if target.launcher_entry:
        own = target.ordinal if context.replicas.meant(INDEX) == RANK else target.local_ordinal
        return f"{{0}}({change.spell(own)}{', ' if parts else ''}{parts})"
    if not parts:
        return change.spell(target.launch)
    values = parts[1:] if parts.startswith("*") else f"({parts}{'' if ',' in parts else ','})"
    return change.spell(target.launch_with).replace("{1}", values)


def _unused(context: Context) -> None:
    """The variables that only counted processes for a launch."""
    counts = context.replicas.counts
    bound = [context.index.parent(context.index.parent(name) or name) for name in counts.counters]
    for statement in (*bound, *counts.totals, *counts.begun):
        if not isinstance(statement, (cst.Assign, cst.AugAssign)) or context.plan.taken(statement):
            continue
        if context.roles.index(statement) is context.index:
            change = context.plan.change(SPAWN, statement, "the runtime counts the processes")
            change.remove(statement)


def _handed(context: Context) -> None:
    """Parameters that brought the number of processes to where they are started go."""
    for one in context.replicas.counts.handed:
        _drop(context, one.function, one.function.params.params, one.param)
        for site, arg in one.calls:
            _drop(context, site, site.args, arg)


def _drop(context: Context, whole: cst.CSTNode, items: Sequence[cst.CSTNode], gone: cst.CSTNode) -> None:
    if context.roles.index(whole) is context.index:
        change = context.plan.change(SPAWN, whole, "the runtime counts the processes")
        change.drop([*items], [gone])


def _parameters(context: Context, launch: Launch) -> None:
    """Parameters that took the number of processes go; where it is still read the runtime is asked."""
    assert launch.function is not None
    dropped = context.replicas.counts.dropped(launch)
    gone = [launch.parameters[position] for position in dropped]
    if not gone:
        return
    change = context.plan.change(SPAWN, launch.function, "the runtime tells how many processes there are")
    change.drop([*launch.function.params.params], gone)
    for site, _ in callers(context.roles, launch.function):
        if context.roles.index(site) is context.index:
            given = [context.replicas.counts.given(launch, position, site) for position in dropped]
            change.drop([*site.args], [arg for arg in given if arg is not None])
    first = head_of(launch.function)
    for param in gone:
        name, number = param.name.value, context.replicas.meant(LOCAL_WORLD_SIZE)
        spelling = context.target.world_size if number == WORLD_SIZE else context.target.local_world_size
        if _read(context, launch.function, name):
            change.before(first, f"{name} = {change.spell(spelling)}")


def _read(context: Context, function: cst.FunctionDef, name: str) -> bool:
    """Whether something that stays reads a parameter."""
    scope = context.index.scopes[function]
    return any(not context.plan.taken(node) for node in context.index.named_of(scope, name))
