"""Optimizer states that are loaded: beside a scaler of torch_xla they have to be on the device.

``load_state_dict`` leaves ``step`` on the CPU, and ``xm.save`` has brought the rest there. A syncfree
optimizer computes with all of it on the device and fails ("Check failed: xtensor"). What a torch optimizer
has saved lacks ``max_exp_avg_sq``, so that a checkpoint of the native script cannot go on.
Sources: pytorch/xla v1.13 to v2.8, ``torch_xla/amp/syncfree/adam.py``; run on torch_xla 2.1.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles.classes import is_optimizer
from xla_transforms.scalers import on_device
from xla_transforms.statements import bare
from xla_transforms.tree import receiver

STATE = Rule(
    "XLA407",
    "optimizer-state-on-device",
    "The state that is loaded into an optimizer beside a scaler of torch_xla is moved to the device.",
    "Syncfree optimizers compute with all of their state on the device (torch_xla/amp/syncfree).",
)
LEFT = Rule(
    "XLA408",
    "optimizer-state-left",
    "An optimizer's state is loaded in a way that leaves no place to move it to the device.",
    "Syncfree optimizers fail on a state that is on the CPU (torch_xla/amp/syncfree).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (STATE, LEFT)

_NATIVE = "a checkpoint of the native script lacks what a syncfree Adam needs: begin a new one"


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla or not on_device(context):
        return
    for call in context.program.calls.get("load_state_dict", ()):
        base = receiver(call)
        ours = context.roles.index(call) is context.index and not context.roles.dead(call)
        if ours and base is not None and is_optimizer(context.roles, base):
            _move(context, call, context.index.source.code(base))


def _move(context: Context, call: cst.Call, optimizer: str) -> None:
    statement = bare(context, call)
    line = context.index.parent(statement) if statement is not None else None
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1 or "\n" in optimizer:
        advice = f"move the tensors of {optimizer}.state to the device after it is loaded"
        context.plan.report(LEFT, call, "what is loaded stays on the CPU, where the step fails", advice)
        return
    change = context.plan.change(STATE, call, "syncfree optimizers compute with their state on the device")
    torch, device = change.use("torch"), change.spell(context.target.device)
    bound = {name for scope in context.index.scopes.values() for name in scope.bindings}
    name = "optimizer_state" if "optimizer_state" not in bound else "xla_optimizer_state"
    moved = f"{{k: v.to({device}) for k, v in {name}.items() if {torch}.is_tensor(v)}}"
    indent = context.index.source.indent
    change.after(line, f"for {name} in {optimizer}.state.values():", f"{indent}{name}.update({moved})")
    context.plan.report(STATE, call, "the state is moved to the device", _NATIVE, fixed=True)
