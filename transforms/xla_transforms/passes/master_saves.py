"""Saves under a guard: every replica reaches ``xm.save``, which lets the first one alone write.

Bringing tensors to the CPU makes the device run what is pending; on one replica alone that would wait for a
reduction which the others never begin. Source: pytorch/xla v2.9.0, ``xla_model.save``; pytorch/xla#2224.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.branches import Branches
from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.replicas import Master
from xla_transforms.statements import live_calls
from xla_transforms.tree import body_of

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
RULES = (UNGUARDED, GUARDED)


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    done: set[cst.CSTNode] = set()
    for call, path in live_calls(context):
        guards = [g for g in _guards(context, call) if g not in done] if path == "torch.save" else []
        for guard, master in guards:
            done.add(guard)
            _open(context, guard, master)


def _guards(context: Context, call: cst.Call) -> list[tuple[cst.If, Master]]:
    found = []
    for node in context.index.ancestors(call):
        if isinstance(node, cst.If) and context.index.within(call, node.body):
            master = context.replicas.master(node.test)
            if master is not None and master.only:
                found.append((node, master))
    return found


def _open(context: Context, guard: cst.If, master: Master) -> None:
    change = context.plan.change(UNGUARDED, guard, "every replica reaches xm.save")
    if guard.orelse is None and all(_saves(context, s) for s in body_of(guard)):
        if len(master.rest) == 1:
            change.replace(guard.test, "{0}", master.rest[0])
            return
        if not master.rest and Branches(context).keep_block(change, guard, guard.body):
            return
    advice = "let every replica reach xm.save, and keep the guard for what is printed or logged"
    context.plan.report(GUARDED, guard, "the other replicas do not reach the save in it", advice)


def _saves(context: Context, statement: cst.CSTNode) -> bool:
    smalls = body_of(statement) if isinstance(statement, cst.SimpleStatementLine) else []
    values = [s.value for s in smalls if isinstance(s, cst.Expr)]
    calls = [v for v in values if isinstance(v, cst.Call) and context.roles.path(v.func) == "torch.save"]
    return bool(smalls) and len(calls) == len(smalls)
