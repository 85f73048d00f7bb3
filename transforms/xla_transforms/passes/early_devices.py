"""Devices that are touched before the launch: the runtime then refuses to start processes.

Source: pytorch/xla v2.9.0, ``_internal/pjrt.py``, ``spawn``: "Runtime is already initialized".
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles import Kind
from xla_transforms.tree import method, receiver, value_of

EARLY = Rule(
    "XLA168",
    "device-before-launch",
    "The device is touched before there are processes.",
    "Whatever asks the XLA runtime for its device initialises it, and a launch refuses that "
    "(pytorch/xla v2.9.0, _internal/pjrt.py).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (EARLY,)

_MOVED = {Kind.MODEL, Kind.TENSOR}


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    touching = (call for call, _ in context.reached if _touches(context, call))
    call = next(filter(context.replicas.starts.before, touching), None)
    if call is not None:
        message = "the device is touched before the processes are launched, which the runtime then refuses"
        context.plan.report(EARLY, call, message, "choose the device in the function that is launched")


def _touches(context: Context, call: cst.Call) -> bool:
    if method(call) == "cuda":
        return context.roles.kinds(receiver(call)) <= _MOVED
    place = value_of(call, "device", 0) if method(call) == "to" else None
    return place is not None and "cuda" in context.roles.places(place)
