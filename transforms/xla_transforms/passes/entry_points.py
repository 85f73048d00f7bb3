"""Entry points: what a launcher ran once for each process is a function that ``torch_xla.launch`` runs.

Where a launcher outside of the script goes on starting the processes the function has the name that it
calls, and the main guard calls it for a single device.

A main guard becomes that function as it stands. Where the top level of the script trains, or touches what a
launch must not find touched, its statements move into the function; definitions stay where they were.
Source: pytorch/xla v2.9.0, ``torch_xla/_internal/pjrt.py``: the processes import the script anew before they
run the function, and nothing may use the runtime before they are started.
"""

from __future__ import annotations

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.replicas import Entry
from xla_transforms.wrapping import Wrapping, shared_names

ENTRY = Rule(
    "XLA162",
    "entry-point",
    "What a launcher ran once for each process is a function that torch_xla.launch runs.",
    "Start the script by python alone: torchrun's processes would not be replicas of one another "
    "(pytorch/xla v2.9.0, torch_xla.py).",
)
RULES = (ENTRY,)

_FUNCTION = "_mp_fn"
_GUARD = 'if __name__ == "__main__":'


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    for entry in context.replicas.starts.entries:
        if entry.index is context.index:
            _write(context, entry)


def _write(context: Context, entry: Entry) -> None:
    place = entry.parts[0]
    starter = context.target.starter
    change = context.plan.change(ENTRY, place, f"{starter} runs it in one process for each XLA device")
    name, guard, source = _free(context), entry.guard, context.index.source
    head = f"def {name}(index):"
    launch = f"{source.indent}{change.spell(context.target.launch).replace('{0}', name)}"
    if guard is not None and not entry.layout.moved:
        change.cut(source.offsets(guard)[0], context.plan.bracketed(guard.test)[1], head[:-1])
        if shared := shared_names(context.roles, context.index, guard):
            change.before(guard.body.body[0], "global " + ", ".join(shared))
        change.after(guard, "", "", f"if {source.code(guard.test)}:", launch)
    else:
        opening = f"if {source.code(guard.test)}:" if guard is not None else _GUARD
        context.plan.imports.moving |= set(entry.layout.moved)
        Wrapping(context, entry.layout.moved, guard, head, [opening, launch]).write(change)
    message = f"start the script by python alone: {starter} starts a process for each device"
    if context.target.launcher_entry:
        message = f"{starter} calls {name} in a process for each device; python alone trains on one"
    context.plan.report(ENTRY, place, message, fixed=True)


def _free(context: Context) -> str:
    if context.target.launcher_entry:
        return context.target.launcher_entry
    bound = {name for scope in context.index.scopes.values() for name in scope.bindings}
    name = _FUNCTION
    while name in bound:
        name += "_"
    return name
