"""A function that processes run, called by the one that starts them: it then trains on one device.

Natively it could still join a process group there, one that ``torchrun`` or options on the command line made.
Source: pytorch/xla v2.9.0, ``torch_xla.py``, ``launch``: only what it starts are replicas of one another.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.replicas import Entry, Launch
from xla_transforms.roles import Kind
from xla_transforms.roles.calls import callers
from xla_transforms.tree import destination, string_value, walk

ALONE = Rule(
    "XLA165",
    "called-without-launch",
    "What processes run is also called without a launch: each caller then trains by itself.",
    "Without a launch the world is of one replica: its sampler gives it all the data, and its gradients stay "
    "its own (pytorch/xla v2.9.0, torch_xla.py).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (ALONE,)


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    for entry in context.replicas.starts.entries:
        _around(context, entry)
    for launch in context.replicas.starts.launches:
        for site, _ in callers(context.roles, launch.function) if launch.function is not None else ():
            here = context.roles.index(site) is context.index
            if here and _as_one_process(context, site) and not context.roles.dead(site):
                _tell(context, launch, site)


def _around(context: Context, entry: Entry) -> None:
    """Report calls of what a script runs in each process, made by a file that launches nothing."""
    if context.index is entry.index or any(e.index is context.index for e in context.replicas.starts.entries):
        return
    calls = [call for part in entry.parts for call in entry.index.inside(part, cst.Call)]
    runs = {f.node for call in calls for f in context.roles.facts(call.func) if f.kind is Kind.FUNCTION}
    joining = [f for f in runs if isinstance(f, cst.FunctionDef) and context.replicas.starts.joins(f)]
    for function in joining:
        for site, _ in callers(context.roles, function):
            if context.roles.index(site) is context.index and not context.roles.dead(site):
                name, script = context.index.source.code(site.func), entry.index.source.path
                message = f"{name} is called without the launch that {script} has: each process trains alone"
                advice = f"let each host run python {script}, which starts its processes"
                context.plan.report(ALONE, site, message, advice)


def _as_one_process(context: Context, site: cst.Call) -> bool:
    """Whether the call is made where processes are started, or each process of a launcher begins."""
    starts = context.replicas.starts
    function = context.index.function_of(site)
    started = {context.roles.index(one.call).function_of(one.call) for one in starts.launches}
    return starts.before(site) or (function in started and function is not None)


def _tell(context: Context, launch: Launch, site: cst.Call) -> None:
    name, option = context.index.source.code(site.func), _option(context, launch)
    without = f"without {option} " if option else "here "
    if context.target.launcher_entry:
        message = f"{without}{name} trains alone in each process: all of them on all the data"
        advice = f"give each job {option}" if option else "let each process run what the launch runs"
    else:
        message = (
            f"{without}{name} trains on one device: several processes that are started so (by torchrun, one "
            "on each host) each train on all the data, alone"
        )
        advice = f"start it once on each host, by python, {f'with {option}' if option else 'to launch'}"
    context.plan.report(ALONE, site, message, advice)


def _option(context: Context, launch: Launch) -> str:
    """The command line's option that a launch hangs on."""
    index = context.roles.index(launch.call)
    guard = next((a for a in index.ancestors(launch.call) if isinstance(a, cst.If)), None)
    if guard is None or not index.within(launch.call, guard.body):
        return ""
    read = [n for n in walk(guard.test) if isinstance(n, cst.Attribute)]
    names = {n.attr.value for n in read if Kind.ARGUMENTS in context.roles.kinds(n.value)}
    for add in context.program.calls.get("add_argument", ()):
        if destination(add) in names:
            flags = [string_value(a.value) or "" for a in add.args if a.keyword is None]
            return next((flag for flag in flags if flag.startswith("--")), "")
    return ""
