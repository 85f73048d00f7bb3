"""Samplers: each replica reads its own part of the data.

A sampler of a program of several processes is told the world size and the rank of the XLA runtime. In a
program of one process that is to train in replicas, every loader of a training loop gets a sampler.
Source: pytorch v2.9, ``torch/utils/data/distributed.py``: without ``num_replicas`` and ``rank`` the sampler
asks the process group; pytorch/xla#7904: a device loader does not part the data.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.plan import Planned
from xla_transforms.replicas import RANK, WORLD_SIZE
from xla_transforms.replicas.feeds import SAMPLERS
from xla_transforms.roles import Kind
from xla_transforms.statements import live_calls
from xla_transforms.targets.base import Spelling
from xla_transforms.tree import argument, has_star, number_value, value_of

SAMPLER = Rule(
    "XLA511",
    "sampler-replicas",
    "A DistributedSampler is told world size and rank by the XLA runtime.",
    "Without them it asks a process group, which is gone (torch/utils/data/distributed.py).",
)
UNKNOWN = Rule(
    "XLA512",
    "sampler-unknown",
    "It is not known whether a sampler is told the number of replicas, or the rank among them.",
    "A number of processes that the user gives need not be the number of XLA devices "
    "(torch/utils/data/distributed.py raises, or leaves data out).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (SAMPLER, UNKNOWN)


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    for call, path in live_calls(context):
        if path in SAMPLERS or _inherits(context, call):
            _place(context, call)


def _inherits(context: Context, call: cst.Call) -> bool:
    """Whether a call makes a sampler of a class of the program whose ``__init__`` is the parent's."""
    classes = [f.node for f in context.roles.facts(call.func) if f.kind is Kind.CLASS]
    return any(isinstance(c, cst.ClassDef) and context.replicas.feeds.inherits(c) for c in classes)


def _place(context: Context, call: cst.Call) -> None:
    if has_star(call) or not call.args:
        _unknown(context, call, "its arguments are not all seen")
        return
    if _alone(call):
        return
    added, unknown = [], []
    for name, position, wanted, spelling in (
        ("num_replicas", 1, WORLD_SIZE, context.target.world_size),
        ("rank", 2, RANK, context.target.ordinal),
    ):
        value = value_of(call, name, position)
        if value is None or (isinstance(value, cst.Name) and value.value == "None"):
            added.append((name, spelling, argument(call, name, position)))
        elif context.replicas.number(value) != wanted and not _correct(context, value, wanted, spelling):
            unknown.append(f"{name}={context.index.source.code(value)}")
    if unknown:
        _unknown(context, call, f"it is not known what {' and '.join(unknown)} stands for")
    _add(context, call, added)


def _alone(call: cst.Call) -> bool:
    """Whether a sampler is told that there is one replica: then it reads all, on purpose."""
    return number_value(value_of(call, "num_replicas", 1)) == 1


def _correct(context: Context, value: cst.BaseExpression, wanted: str, spelling: Spelling) -> bool:
    """A constant, a number of the command line, the rank on one host: what is meant is the runtime's."""
    facts = {f.kind for f in context.roles.facts(value)}
    known = bool(facts) and facts <= {Kind.NUMBER, Kind.NONE}
    if known and context.plan.free(value):
        change = context.plan.change(SAMPLER, value, f"the XLA runtime tells the {wanted}")
        change.replace(value, change.spell(spelling))
    return known


def _unknown(context: Context, node: cst.CSTNode, message: str) -> None:
    world_size, rank = context.target.world_size.text, context.target.ordinal.text
    advice = f"give it num_replicas={world_size} and rank={rank}".replace("{m}", "xr").replace("{n}", "xr")
    context.plan.report(UNKNOWN, node, message, advice)


def _add(
    context: Context, call: cst.Call, wanted: list[tuple[str, Spelling, cst.Arg | None]]
) -> None:
    if not wanted:
        return
    change = context.plan.change(SAMPLER, call, "the sampler asks the XLA runtime")
    for _, spelling, given in wanted:
        if given is not None:
            change.replace(given.value, change.spell(spelling))
    added = [f"{name}={change.spell(spelling)}" for name, spelling, given in wanted if given is None]
    if added:
        _insert(change, call, added)


def _insert(change: Planned, call: cst.Call, added: list[str]) -> None:
    """Behind the arguments by position."""
    positional = [arg for arg in call.args if arg.keyword is None]
    change.wrap((positional or call.args)[-1], "{0}, " + ", ".join(added))
