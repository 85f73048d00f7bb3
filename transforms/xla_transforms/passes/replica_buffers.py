"""Running statistics: before they are used they are the first replica's, as DistributedDataParallel had them.

The wrapper sent the first process's buffers to the others before every forward pass. In training a batch norm
does not read its running statistics; where the model evaluates it does. Replicas of what was one process are
to find the same numbers as well: what they decide by those they decide alike.
Source: pytorch v2.9, ``torch/nn/parallel/distributed.py``, ``broadcast_buffers``; pytorch/xla v2.9.0,
``xla_model.broadcast_master_param``, which sends buffers too.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles import Fact, Kind
from xla_transforms.statements import bare
from xla_transforms.tree import method, receiver, value_of

BUFFERS = Rule(
    "XLA148",
    "replica-buffers",
    "Before a model evaluates, all replicas take the first one's running statistics.",
    "DistributedDataParallel sent its buffers before every forward pass (broadcast_buffers=True); each "
    "replica's batch norms would evaluate by statistics of their own.",
)
OWN = Rule(
    "XLA149",
    "replica-statistics",
    "A model that has running statistics evaluates where no broadcast can be written.",
    "Each replica's batch norms have statistics of their own (pytorch/xla#2223).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (BUFFERS, OWN)

_NORMS = ("BatchNorm", "torchvision.models", "timm", "models.")


def run(context: Context) -> None:
    if not context.distributed or context.already_xla or not context.program.mentions(*_NORMS):
        return
    trained = context.once(_wrapped if context.replicas.native else _trained)
    for call in list(context.index.all(cst.Call)):
        assert isinstance(call, cst.Call)
        model = receiver(call)
        if method(call) == "eval" and model is not None and trained(model):
            _send(context, call, model)


def _wrapped(context: Context) -> Callable[[cst.BaseExpression], bool]:
    """Tells the models whose buffers a wrapper sent."""
    wrappers = context.replicas.wrappers
    sent = [value_of(call, "broadcast_buffers", 4) for call in wrappers.calls]
    kept = all(getattr(value, "value", "") == "False" for value in sent)
    return lambda model: not kept and wrappers.holds(model)


def _trained(context: Context) -> Callable[[cst.BaseExpression], bool]:
    """Tells the models of a script for one process that train before they evaluate."""
    models = [f.node for c in context.program.calls.get("train", ()) for f in _models(context, receiver(c))]
    return lambda model: any(f.node is not None and f.node in models for f in _models(context, model))


def _models(context: Context, node: cst.CSTNode | None) -> list[Fact]:
    return [fact for fact in context.roles.facts(node) if fact.kind is Kind.MODEL] if node is not None else []


def _send(context: Context, call: cst.Call, model: cst.BaseExpression) -> None:
    line = context.index.statement_of(call)
    parted = context.replicas.alone.parted(call)
    if parted or bare(context, call) is None or not isinstance(line, cst.SimpleStatementLine):
        advice = "call xm.broadcast_master_param(model) on all replicas before it"
        context.plan.report(OWN, call, "the replicas evaluate by running statistics of their own", advice)
        return
    change = context.plan.change(BUFFERS, call, "all replicas evaluate by the first one's statistics")
    text = context.index.source.code(model)
    change.before(line, change.spell(context.target.broadcast_master_param).replace("{0}", text))
