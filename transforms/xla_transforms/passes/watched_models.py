"""Models that a logger watches: its hooks read gradients and parameters in the midst of the backward pass.

Each tensor that a hook reads is an execution of its own. Where one replica alone watches, it executes what
the others do not, and waits for them in a collective that they never reach.
Source: wandb, ``wandb/integration/torch/wandb_torch.py`` (a hook for each parameter); pytorch/xla#1562,
huggingface/transformers#4814 (training hangs at the first step that is logged).
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.tree import value_of

WATCHED = Rule(
    "XLA177",
    "model-watched",
    "A logger watches the model: its hooks read every gradient on the host.",
    "A hook that one replica alone has reads what the others do not: they wait for each other for ever "
    "(pytorch/xla#1562); on one device each tensor that is read is one more execution.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (WATCHED,)

_ADVICE = "leave it out, or watch with log=None; log the few tensors that matter in a step closure"


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for call, path in context.reached:
        log = value_of(call, "log", 2)
        if path == "wandb.watch" and not (isinstance(log, cst.Name) and log.value == "None"):
            _report(context, call)


def _report(context: Context, call: cst.Call) -> None:
    message, severity = "its hooks read every gradient that is logged, one execution each", Severity.WARNING
    if context.distributed:
        message = "its hooks read gradients on the replicas that watch: the others wait for them for ever"
        severity = Severity.ERROR
    context.plan.report(WATCHED, call, message, _ADVICE, severity=severity)
