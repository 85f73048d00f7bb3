"""Batch norms over few rows: their running variance is another one on XLA.

PyTorch keeps the unbiased variance of a batch, n / (n - 1) times the biased one that PyTorch/XLA keeps.
Source: pytorch v2.9, ``BatchNorm1d``; run on torch_xla 2.9 with batches of 4, 10, 16 and 64 rows.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety
from xla_transforms.loops import Effect
from xla_transforms.roles import Kind
from xla_transforms.roles.fold import number_of
from xla_transforms.tree import value_of

BIASED = Rule(
    "XLA267",
    "biased-variance",
    "BatchNorm keeps a smaller running variance on XLA where batches are small.",
    "PyTorch/XLA keeps the biased variance of a batch, (n - 1) / n of what PyTorch keeps: evaluation differs "
    "by that, training does not (run on torch_xla 2.9).",
    safety=Safety.DISPLAY,
)
RULES = (BIASED,)

_NORMS = frozenset({"torch.nn.BatchNorm1d", "torch.nn.LazyBatchNorm1d"})
_SMALL = 16


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla or not context.program.mentions("BatchNorm1d"):
        return
    calls = (c for name in ("BatchNorm1d", "LazyBatchNorm1d") for c in context.program.calls.get(name, ()))
    if not any(context.roles.path(call.func) in _NORMS for call in calls):
        return
    told: dict[cst.CSTNode, cst.CSTNode] = {}
    for loop in context.loops.all:
        if loop.loader is not None and loop.effect & Effect.BACKWARD:
            for call in context.roles.origins(loop.loader, Kind.LOADER):
                told.setdefault(call, loop.loader)
    for call, loader in told.items():
        own = context.roles.index(call) is context.index
        _report(context, call, call if own else loader)


def _report(context: Context, call: cst.CSTNode, place: cst.CSTNode) -> None:
    """Tell of a loader where it is made, or where it is drawn from if that is in another file."""
    if not isinstance(call, cst.Call):
        return
    size = number_of(context.roles, value_of(call, "batch_size", 1))
    if isinstance(size, int) and 1 < size <= _SMALL:
        message = f"a BatchNorm1d over {size} rows keeps {size - 1}/{size} of the variance that PyTorch keeps"
        advice = f"to evaluate as before multiply running_var by {size}/{size - 1}, or take larger batches"
        context.plan.report(BIASED, place, message, advice)
