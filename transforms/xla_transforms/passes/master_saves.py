"""Saves under a guard: every replica reaches ``xm.save``, which lets the first one alone write.

Bringing tensors to the CPU makes the device run what is pending; on one replica alone that would wait for a
reduction which the others never begin. What else the guard kept for the master stays the master's.
Source: pytorch/xla v2.9.0, ``xla_model.save``; pytorch/xla#2224.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.guarding import Guards
from xla_transforms.replicas import Region

UNGUARDED = Rule(
    "XLA811",
    "save-on-all",
    "Every replica reaches a save that was the first process's alone.",
    "xm.save writes on the master only, and all replicas have to bring their tensors to the CPU "
    "(pytorch/xla#2224, #4571).",
)
GUARDED = Rule(
    "XLA812",
    "save-guarded",
    "A save stands under a guard that lets one replica through.",
    "The other replicas do not reach it: where a reduction is pending the one that saves waits for ever.",
    Severity.ERROR,
)
DECIDED = Rule(
    "XLA813",
    "masters-decision",
    "All replicas follow the master's decision to save.",
    "It was taken by a number that is each replica's own; a save has to be reached by all or by none "
    "(pytorch/xla v2.9.0, xla_model.mesh_reduce).",
)
RULES = (UNGUARDED, GUARDED, DECIDED)

_ADVICE = "let every replica reach xm.save, and keep the guard for what only the master may do"


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    regions = [r for r in context.replicas.alone.regions if context.roles.index(r.node) is context.index]
    guards = Guards(context)
    for region in regions:
        if region.obstacle or not guards.can_open(region):
            _report(context, region)
        elif region.block or region.leaves or region.node in context.replicas.alone.masters:
            guards.open(context.plan.change(UNGUARDED, region.node, "every replica reaches xm.save"), region)
            _decide(context, region)


def _decide(context: Context, region: Region) -> None:
    for test in region.decisions:
        if context.replicas.decisions.differs(test):
            change = context.plan.change(DECIDED, test, "all replicas follow the master's decision")
            function = context.index.function_of(test)
            tag = f'"{function.name.value if function is not None else "main"}_saves"'
            parts = (tag, "bool({0})", "lambda answers: answers[0]")
            spelled = change.spell(context.target.mesh_reduce)
            for number, part in enumerate(parts):
                spelled = spelled.replace(f"{{{number}}}", part.replace("{0}", "{value}"))
            change.wrap(test, spelled.replace("{value}", "{0}"), brackets=True)


def _report(context: Context, region: Region) -> None:
    if isinstance(region.node, cst.FunctionDef):
        return  # told at the guards of those who call it
    why = region.obstacle or "its lines cannot be moved"
    context.plan.report(
        GUARDED, region.node, f"the other replicas do not reach the save in it: {why}", _ADVICE
    )
