"""Programs that are made for several devices: they are reported and left, every line of them.

A half of such a program on the XLA device and the other half on CUDA would run on neither.
Source: pytorch/xla v2.9.0, the guide "PyTorch on XLA devices" (one process for each device) and ``spmd``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.placing import several_devices, sharding, shares_several

SEVERAL = Rule(
    "XLA191",
    "several-devices",
    "The script computes on several GPUs by name; its devices are left as they are.",
    "One XLA process has one device; a model split over cuda:0 and cuda:1 has no counterpart "
    "(pytorch/xla guide: one process for each device).",
    Severity.ERROR,
    Safety.DISPLAY,
)
SHARDED = Rule(
    "XLA197",
    "sharded-program",
    "The program parts one model among processes; it is left as it is.",
    "FSDP, DTensor, pipelines and torch.distributed.rpc know CUDA and the CPU alone; on XLA a model is "
    "parted by torch_xla.distributed.fsdp or spmd (pytorch/xla v2.9.0).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (SEVERAL, SHARDED)


_FSDP = (
    "wrap the model in torch_xla.distributed.fsdp.XlaFullyShardedDataParallel (auto_wrap_policy= of its own "
    "wrap module, compute_dtype= for mixed precision), step by optimizer.step() and never xm.optimizer_step, "
    "clip by model.clip_grad_norm_(), save model.state_dict() and model.get_shard_metadata() on each replica "
    "(https://docs.pytorch.org/xla/release/r2.9/perf/fsdp.html)"
)


_ZERO = (
    "torch_xla.distributed.zero_redundancy_optimizer.ZeroRedundancyOptimizer parts the state on XLA (it "
    "reduces the gradients itself: step by optimizer.step(); it clips unless grad_clipping=False): "
    "https://github.com/pytorch/xla/blob/v2.9.0/torch_xla/distributed/zero_redundancy_optimizer.py; or "
)
_INNER = "build the inner optimizer alone: each replica then holds the whole state"


def run(context: Context) -> None:
    if not context.names_cuda or not context.index.source.module.body:  # a package may be empty
        return
    _several(context)
    _sharded(context)
    if context.program.mentions("ZeroRedundancyOptimizer"):
        _parted_states(context)


def _parted_states(context: Context) -> None:
    """Optimizers that part their state among the processes, and where they gather it again."""
    made = context.once(_zero)
    for call in (one for one in made if context.roles.index(one) is context.index):
        told = "it sends its parts by torch.distributed, which no longer has a group here"
        advice = (_ZERO if context.target.fully_sharded else "") + _INNER
        context.plan.report(SHARDED, call, told, advice)
    for call in context.program.calls.get("consolidate_state_dict", ()) if made else ():
        if context.roles.index(call) is context.index:
            told = "it gathers the state's parts by torch.distributed: optimizers of XLA have no such method"
            advice = "leave it out; what parts the state on XLA is saved by each replica in a file of its own"
            context.plan.report(SHARDED, call, told, advice)


def _zero(context: Context) -> list[cst.Call]:
    """The calls of the program that make torch's ZeroRedundancyOptimizer."""
    roles, calls = context.roles, context.program.calls
    every = (c for found in calls.values() for c in found if not roles.dead(c))
    home, name = "torch.distributed.optim.", ".ZeroRedundancyOptimizer"
    return [c for c in every if (path := roles.path(c.func)).startswith(home) and path.endswith(name)]


def _several(context: Context) -> None:
    advice = "choose one device, or split the model with torch_xla.distributed.spmd"
    found = several_devices(context)
    for node in found:
        context.plan.report(SEVERAL, node, "one of several GPUs that the script names", advice)
    if not found and context.speaks_of_gpu and shares_several(context):
        first = context.index.source.module.body[0]
        context.plan.report(SEVERAL, first, "left as its program is, which names several GPUs", advice)


def _fully_sharded(context: Context) -> None:
    """Where a program is left for the sake of one construct: that is told, and each file it is not in."""
    if not context.parted:
        return
    unclear, first = context.sharded.obstacle, context.index.source.module.body[0]
    if unclear is None:
        reason = context.replicas.obstacle or "its processes become one (--no-distributed)"
        context.plan.report(SHARDED, first, f"the model stays sharded for CUDA: {reason}", _FSDP)
    elif context.roles.index(unclear.node) is context.index:
        context.plan.report(SHARDED, unclear.node, unclear.reason, unclear.advice or _FSDP)
    elif context.speaks_of_gpu:
        context.plan.report(SHARDED, first, "left as its program is, which several processes share", _FSDP)


def _sharded(context: Context) -> None:
    if context.sharded.references:
        _fully_sharded(context)
        return
    advice = "write it for torch_xla.distributed.fsdp or spmd, then migrate again"
    for path, binding in sharding(context.index)[:1]:
        context.plan.report(SHARDED, binding.statement, f"{path} is made for several processes", advice)
        return
    modules = context.program.modules.values()
    if context.speaks_of_gpu and any(sharding(module) for module in modules):
        first = context.index.source.module.body[0]
        context.plan.report(SHARDED, first, "left as its program is, which several processes share", advice)
