"""Collectives of ``torch.distributed`` become those of PyTorch/XLA.

Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``: ``rendezvous``; ``xla_backend.py``, in which a
process group's barrier does nothing.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.replicas.groups import short
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
)
RULES = (BARRIER, LEFT)


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    tags: dict[str, int] = {}
    for call, path in live_calls(context):
        if short(path) == "barrier":
            change = context.plan.change(BARRIER, call, "all replicas meet before they go on")
            tag = f'"{_tag(context, call, tags)}"'
            change.replace(call, change.spell(context.target.rendezvous).replace("{0}", tag))
        elif call in context.replicas.groups.needed:
            advice = "see that its tensors are on the device, and that the XLA backend has it"
            context.plan.report(LEFT, call, f"{short(path)} is left to the process group", advice)


def _tag(context: Context, call: cst.Call, tags: dict[str, int]) -> str:
    """A name that tells this meeting from the others: by the function, with a number from the second on."""
    function = context.index.function_of(call)
    name = function.name.value if function is not None else "main"
    tags[name] = tags.get(name, 0) + 1
    return name if tags[name] == 1 else f"{name}_{tags[name]}"
