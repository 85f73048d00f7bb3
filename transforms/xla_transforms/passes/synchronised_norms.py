"""SyncBatchNorm: its kernels are for GPUs; the conversion goes, and each replica normalises by its own batch.

Source: pytorch v2.9, ``torch/nn/modules/batchnorm.py``: ``SyncBatchNorm.forward`` raises for a tensor that is
not on a GPU once there is a process group, and is a plain BatchNorm without one. pytorch/xla converts none.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.statements import live_calls
from xla_transforms.tree import same, value_of

CONVERTED = Rule(
    "XLA146",
    "sync-batch-norm",
    "SyncBatchNorm does not run on XLA: the conversion goes, and batches are normalised replica by replica.",
    "It raises for tensors that are not on a GPU, and without a process group is a plain BatchNorm in silence"
    " (torch/nn/modules/batchnorm.py).",
    Severity.ERROR,
    Safety.UNSAFE,
)
RULES = (CONVERTED,)

_CONVERT = (
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "torch.nn.modules.batchnorm.SyncBatchNorm.convert_sync_batchnorm",
    "apex.parallel.convert_syncbn_model",
)
_CLASSES = (
    "torch.nn.SyncBatchNorm", "torch.nn.modules.batchnorm.SyncBatchNorm", "apex.parallel.SyncBatchNorm",
)  # fmt: skip
_ADVICE = (
    "check that the batch of one replica is large enough; torch_xla.core.functions.SyncBatchNorm(features) "
    "is a layer that normalises over all replicas; average running_mean and running_var before evaluating"
)


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for call, path in live_calls(context):
        if path in _CONVERT and (context.distributed or path.startswith("apex.")):
            _leave_out(context, call)
        elif context.distributed and path in _CLASSES:
            context.plan.report(CONVERTED, call, "SyncBatchNorm does not run on an XLA device", _ADVICE)


def _leave_out(context: Context, call: cst.Call) -> None:
    model, assign = value_of(call, "module", 0), context.index.parent(call)
    if model is None:
        return
    change = context.plan.change(CONVERTED, call, "each replica normalises by its own batch")
    targets = [t.target for t in assign.targets] if isinstance(assign, cst.Assign) else []
    if assign is not None and len(targets) == 1 and same(targets[0], model):
        change.remove(assign)
    else:
        change.replace(call, "{0}", model)
    if context.distributed:
        message = "batch norms see the batch of one replica: the statistics differ from those over all"
        if context.replicas.groups.needed:
            message = f"SyncBatchNorm raises on an XLA device beside a process group; without it {message}"
        context.plan.report(CONVERTED, call, message, _ADVICE)
