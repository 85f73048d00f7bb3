"""Calls of ``torch.distributed`` beside a framework that starts the processes: on XLA it joins no group.

Sources: accelerate v1.16 ``state.py`` (``PartialState`` of the backend xla; transformers' Trainer has one);
lightning 2.5 ``strategies/xla.py``, ``setup_distributed``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.lightning import fabrics
from xla_transforms.replicas.collectives import short
from xla_transforms.roles.fold import IN_GROUP
from xla_transforms.tree import walk

GROUP = Rule(
    "XLA940",
    "framework-group",
    "A script asks for a process group where a framework starts the processes.",
    "On XLA Accelerate, transformers' Trainer and Lightning join no group of torch.distributed, whose "
    "functions raise (accelerate v1.16, state.py; lightning 2.5, strategies/xla.py).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (GROUP,)

_LEAVE_OUT = "leave it out: there is no group"
_ACCELERATE = {
    "barrier": "{0}.wait_for_everyone()",
    "get_rank": "{0}.process_index",
    "get_world_size": "{0}.num_processes",
    "all_reduce": '{0}.reduce(tensor, reduction="sum")',
    "reduce": '{0}.reduce(tensor, reduction="sum")',
    "all_gather": "{0}.gather(tensor)",
    "all_gather_object": "accelerate.utils.gather_object(values)",
    "broadcast": "accelerate.utils.broadcast(tensor)",
    "broadcast_object_list": "accelerate.utils.broadcast_object_list(values)",
}
_MODULE = {
    "barrier": "{0}.strategy.barrier()",
    "get_rank": "{0}.global_rank",
    "get_world_size": "{0}.world_size",
    "all_reduce": '{0}.strategy.reduce(tensor, reduce_op="sum")',
    "reduce": '{0}.strategy.reduce(tensor, reduce_op="sum")',
    "all_gather": "{0}.strategy.all_gather(tensor)",
    "broadcast": "{0}.strategy.broadcast(value)",
    "broadcast_object_list": "{0}.strategy.broadcast(value)",
}
_FABRIC = {
    "barrier": "{0}.barrier()",
    "get_rank": "{0}.global_rank",
    "get_world_size": "{0}.world_size",
    "all_reduce": '{0}.all_reduce(tensor, reduce_op="sum")',
    "all_gather": "{0}.all_gather(tensor)",
    "broadcast": "{0}.broadcast(value)",
    "broadcast_object_list": "{0}.broadcast(value)",
}


def run(context: Context) -> None:
    framework = context.frameworks.group_free
    if not framework:
        return
    for call, path in context.reached:
        name = short(path)
        asks = name[:1].islower() and f"torch.distributed.{name}" not in IN_GROUP
        if asks and not context.plan.taken(call):
            message = f"{name} asks for a process group, and {framework} joins none on XLA"
            passed = _passed_by(context, call)
            message += ": it is passed by" if passed else ""
            severity = Severity.WARNING if passed else None
            context.plan.report(GROUP, call, message, _advice(context, call, name), severity=severity)


def _passed_by(context: Context, call: cst.Call) -> bool:
    """Whether a condition asks for the group first."""
    kinds = (cst.If, cst.IfExp, cst.BooleanOperation)
    around = [a for a in context.index.ancestors(call) if isinstance(a, kinds)]
    tests = [a if isinstance(a, cst.BooleanOperation) else a.test for a in around]
    asked = (n for test in tests for n in walk(test) if isinstance(n, cst.Call))
    return any(context.roles.path(n.func).endswith(".is_initialized") for n in asked)


def _advice(context: Context, call: cst.Call, name: str) -> str:
    if name == "destroy_process_group":
        return _LEAVE_OUT
    holder, words = _words(context, call)
    known = words.get(name)
    return f"write {known.format(holder)}" if known else f"{holder} has what the processes share"


def _words(context: Context, call: cst.Call) -> tuple[str, dict[str, str]]:
    """What knows of the processes at a place, and how it is asked."""
    frameworks = context.frameworks
    if frameworks.group_free != "Lightning":
        return frameworks.accelerator_in(context.index) or "trainer.accelerator", _ACCELERATE
    if fabrics(context.roles):
        return "fabric", _FABRIC
    owner = context.index.class_of(context.index.function_of(call) or call)
    module = owner is not None and any("Module" in base for base in frameworks.classes(owner.name))
    return "self.trainer" if module else "trainer", _MODULE
