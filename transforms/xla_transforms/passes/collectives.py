"""Collectives of ``torch.distributed`` become those of PyTorch/XLA.

Those of tensors change them in place, as natively, and are recorded with the rest of the step; those of
Python objects go through ``xm.mesh_reduce``.
Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``: ``all_reduce`` of a list works in place,
``rendezvous``; ``xla_backend.py``, in which a process group's barrier does nothing.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.replicas.collectives import MEAN, OBJECTS, SUM, Collective, collective, on_host, short
from xla_transforms.statements import live_calls

BARRIER = Rule(
    "XLA151",
    "barrier",
    "A barrier of the process group becomes a rendezvous of the replicas.",
    "The barrier of the XLA backend returns at once (pytorch/xla v2.9.0, xla_backend.py).",
)
LEFT = Rule(
    "XLA152",
    "collective-left",
    "A collective of torch.distributed is left to the process group's XLA backend.",
    "The backend takes tensors on the XLA device only, and some collectives not at all "
    "(pytorch/xla v2.9.0, xla_backend.py).",
    Severity.WARNING,
    Safety.DISPLAY,
)
COLLECTIVE = Rule(
    "XLA153",
    "collective",
    "A collective of torch.distributed becomes the one of torch_xla's xla_model.",
    "It needs no process group, and is a part of the recorded step (pytorch/xla v2.9.0, xla_model.py).",
)
OBJECT = Rule(
    "XLA154",
    "object-collective",
    "A collective of Python objects becomes xm.mesh_reduce.",
    "The XLA backend has none; xm.mesh_reduce reads what arrives with torch.load, which takes plain values "
    "and tensors, and no other objects (pytorch/xla v2.9.0, xla_model.py).",
    Severity.INFO,
)
RULES = (BARRIER, LEFT, COLLECTIVE, OBJECT)


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    tags: dict[str, int] = {}
    for call, path in live_calls(context):
        found = collective(context.roles, call) if short(path) else None
        if found is not None and not found.values:
            _meet(context, call, tags)
        elif found is not None and found.name in OBJECTS:
            _objects(context, call, found, tags)
        elif found is not None:
            _tensors(context, call, found)
        elif call in context.replicas.groups.needed:
            _left(context, call, short(path))


def _meet(context: Context, call: cst.Call, tags: dict[str, int]) -> None:
    change = context.plan.change(BARRIER, call, "all replicas meet before they go on")
    tag = f'"{_tag(context, call, tags)}"'
    change.replace(call, change.spell(context.target.rendezvous).replace("{0}", tag))


def _tensors(context: Context, call: cst.Call, found: Collective) -> None:
    change = context.plan.change(COLLECTIVE, call, f"{found.name} of torch_xla's replicas")
    target = context.target
    if found.name == "broadcast":
        change.replace(call, f"{change.spell(target.broadcast)}([{{0}}], {{1}})", *_with_source(found))
    elif found.name == "all_gather":
        whole = isinstance(found.values[1], (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
        row = "{1}.unsqueeze(0)" if whole else "({1}).unsqueeze(0)"
        all_of = change.spell(target.all_gather).replace("{0}", row)
        change.replace(call, f"{{0}}[:] = {all_of}.unbind()", *found.values)
    else:
        kind = SUM if found.kind == MEAN else found.kind
        scale = f", scale=1.0 / {change.spell(target.world_size)}" if found.kind == MEAN else ""
        change.replace(call, f'{change.spell(target.all_reduce)}("{kind}", [{{0}}]{scale})', found.values[0])


def _objects(context: Context, call: cst.Call, found: Collective, tags: dict[str, int]) -> None:
    change = context.plan.change(OBJECT, call, "what each replica has goes to all")
    tag, text = f'"{_tag(context, call, tags)}"', change.spell(context.target.mesh_reduce)
    if found.name == "all_gather_object":
        parts: list[cst.BaseExpression | str] = [*found.values]
        every = text.format(tag, "{1}", "list")
    else:
        parts = _with_source(found)
        every = text.format(tag, "{0}", "lambda lists: lists[{1}]")
    change.replace(call, f"{{0}}[:] = {every}", *parts)
    advice = "see that nothing else is among it: a class of its own, or NumPy's numbers"
    context.plan.report(OBJECT, call, "it arrives as plain values and tensors", advice)


def _with_source(found: Collective) -> list[cst.BaseExpression | str]:
    return [found.values[0], found.values[1] if len(found.values) > 1 else "0"]


def _left(context: Context, call: cst.Call, name: str) -> None:
    values = [arg.value for arg in call.args]
    if name in OBJECTS:
        message, advice = f"{name} has no place on the XLA backend", "write xm.mesh_reduce"
        context.plan.report(LEFT, call, message, advice, severity=Severity.ERROR)
    elif any(on_host(context.roles, value) for value in values):
        message, advice = f"{name} is given a tensor of the CPU", "make the tensor on the XLA device"
        context.plan.report(LEFT, call, message, advice, severity=Severity.ERROR)
    else:
        advice = "see that its tensors are on the device, and that the XLA backend has it"
        context.plan.report(LEFT, call, f"{name} is left to the process group", advice)


def _tag(context: Context, call: cst.Call, tags: dict[str, int]) -> str:
    """A name that tells this meeting from the others: by the function, with a number from the second on.

    Where one replica comes to another place than the rest, both places are one meeting and have one name.
    """
    name = context.index.function_name(call)
    guards = (a for a in context.index.ancestors(call) if isinstance(a, cst.If))
    if any(context.replicas.master(guard.test) for guard in guards):
        return f"{name}_in_turn"
    tags[name] = tags.get(name, 0) + 1
    return name if tags[name] == 1 else f"{name}_{tags[name]}"
