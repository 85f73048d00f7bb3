"""Setting up logging: torch_xla does so when it is imported, and the first to do it is the only one.

``import torch_xla`` calls ``logging.basicConfig()``, which gives the root logger a handler. What the script
asks of ``logging.basicConfig`` afterwards (a level, a file, a format) is dropped without a word, and with it
all that it logs below a warning; ``force=True`` has it done all the same.
Source: pytorch/xla v2.9.0, ``torch_xla/__init__.py``; Python 3.8, ``logging.basicConfig``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.statements import live_calls, migrating
from xla_transforms.tree import argument, has_star

FORCED = Rule(
    "XLA272",
    "logging-set-up",
    "logging.basicConfig is told to take effect though torch_xla called it before.",
    "torch_xla sets up logging when it is imported; without force=True the script's own level, file and "
    "format are ignored (pytorch/xla v2.9.0, torch_xla/__init__.py).",
)
LEFT = Rule(
    "XLA273",
    "logging-set-up-left",
    "logging.basicConfig has no effect, because torch_xla called it before.",
    "Natively the first of several calls counted; behind an import of torch_xla none does (Python, "
    "logging.basicConfig).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (FORCED, LEFT)

_SET_UP = "logging.basicConfig"


def run(context: Context) -> None:
    if not migrating(context) or not context.uses_cuda:
        return
    for call, path in live_calls(context):
        if path == _SET_UP and call.args and argument(call, "force") is None:
            _force(context, call)


def _force(context: Context, call: cst.Call) -> None:
    others = [c for c in context.once(_calls) if c is not call and not _apart(context, call, c)]
    if others or has_star(call):
        message = "it does nothing, since the import of torch_xla has set up logging"
        context.plan.report(LEFT, call, message, "give force=True to the one call that is to count")
        return
    change = context.plan.change(FORCED, call, "torch_xla has set up logging by then")
    change.wrap(call.args[-1], "{0}, force=True")


def _calls(context: Context) -> list[cst.Call]:
    """All calls of the program that set up logging."""
    return [
        c for c in context.program.calls.get("basicConfig", ()) if context.roles.path(c.func) == _SET_UP
    ]


def _apart(context: Context, one: cst.Call, other: cst.Call) -> bool:
    """Whether no process makes both calls: two scripts, or the two ways of a condition."""
    index, elsewhere = context.roles.index(one), context.roles.index(other)
    if index is not elsewhere:
        return not any(context.program.imported(i.name) for i in (index, elsewhere))
    choices = [a for a in index.ancestors(one) if isinstance(a, cst.If) and index.within(other, a)]
    return any(index.within(one, choice.body) != index.within(other, choice.body) for choice in choices)
