"""A part of a program of several processes that is migrated without the rest: helpers for ranks and saves.

What joins the process group is elsewhere, and decides what becomes of the calls here.
Source: pytorch/xla v2.9.0, ``torch_xla.py``, ``launch``: its processes make no process group, so helpers that
are left ask one that is not there, and take each replica for the only process.
"""

from __future__ import annotations

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.replicas.collectives import short
from xla_transforms.replicas.scripts import main_guard
from xla_transforms.roles.fold import IN_GROUP

PART = Rule(
    "XLA166",
    "part-of-a-program",
    "A file asks a process group that no file beside it joins.",
    "Files of one program are rewritten alike, or each replica takes itself for the only process "
    "(pytorch/xla v2.9.0, torch_xla.py).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (PART,)

_SHOWN = 4  # calls, before the rest is only counted


def run(context: Context) -> None:
    apart = context.replicas.native or context.settings.distributed is False or context.already_xla
    apart = apart or bool(context.frameworks.group_free) or _is_whole(context)
    if apart or not context.program.mentions("torch.distributed"):
        return
    asking = [(call, short(path)) for call, path in context.reached if short(path)[:1].islower()]
    asking = [(call, name) for call, name in asking if f"torch.distributed.{name}" not in IN_GROUP]
    if not asking:
        return
    places = [f"{name} (line {context.index.source.span(call).line})" for call, name in asking]
    rest = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    message = f"{', '.join(places[:_SHOWN])}{rest} left: what joins the process group is not here"
    severity = Severity.WARNING if context.names_cuda else Severity.INFO
    advice = "migrate the program that uses it as a whole: xla-migrate DIRECTORY/"
    context.plan.report(PART, asking[0][0], message, advice, severity=severity)


def _is_whole(context: Context) -> bool:
    """Whether the program is a script that trains, or something that is run."""
    modules = context.program.modules.values()
    trains = bool(context.program.calls.get("backward")) or context.frameworks.trains
    return trains or any(main_guard(index) is not None for index in modules)
