"""Epochs: a sampler is told which one it is, so that each has an order of its own.

Source: pytorch v2.9, ``torch/utils/data/distributed.py``: without ``set_epoch`` every epoch has the same
order; a device loader has no ``sampler`` (pytorch/xla v2.9.0, ``torch_xla/distributed/parallel_loader.py``).
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.plan import Planned
from xla_transforms.replicas.epochs import Epoch
from xla_transforms.replicas.feeds import Feed
from xla_transforms.tree import value_of

EPOCH = Rule(
    "XLA517",
    "sampler-epoch",
    "A sampler is told the number of each epoch.",
    "Without it every epoch goes through the data in the same order (torch/utils/data/distributed.py).",
)
SAME_ORDER = Rule(
    "XLA518",
    "same-order",
    "Every epoch goes through the data in the same order.",
    "A DistributedSampler shuffles by its seed and the number that set_epoch gives it "
    "(torch/utils/data/distributed.py).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (EPOCH, SAME_ORDER)

_ADVICE = "call set_epoch(epoch) of its sampler at the beginning of each epoch"


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    feeds = context.replicas.feeds
    for feed in feeds.parted.values():
        if feeds.shuffles(feed.call):
            _tell(context, feed)
    if context.replicas.native and not context.program.calls.get("set_epoch"):
        for feed in (f for f in feeds.all.values() if f.trains and feeds.shared(f.call)):
            _as_native(context, feed)


def _tell(context: Context, feed: Feed) -> None:
    feeds, epochs = context.replicas.feeds, context.replicas.feeds.epochs_of(feed)
    for epoch in (e for e in epochs if _ours(context, e.loop)):
        if epoch.loader:
            _set(context, feed, epoch)
        else:
            message = "the sampler of a loader that this loop goes through has no name here"
            context.plan.report(SAME_ORDER, epoch.loop, f"{message}: every epoch has the same order", _ADVICE)
    renewed = list(feeds.renewed(feed))
    for statement, loader in (r for r in renewed if _ours(context, r[0])):
        change = context.plan.change(EPOCH, statement, "each round has an order of its own")
        change.before(statement, f"{loader}.sampler.set_epoch({loader}.sampler.epoch + 1)")


def _ours(context: Context, node: cst.CSTNode) -> bool:
    return context.roles.index(node) is context.index


def _set(context: Context, feed: Feed, epoch: Epoch) -> None:
    feeds = context.replicas.feeds
    named = feeds.by_name(feed, epoch)
    sampler = feeds.sampler_name(feed.call) if named else f"{epoch.loader}.sampler"
    change = context.plan.change(EPOCH, epoch.loop, "each epoch has an order of its own")
    number = _number(context, change, epoch) or f"{sampler}.epoch + 1"
    first = next(iter(_lines(epoch.loop)))
    change.before(first, f"{sampler}.set_epoch({number})")


def _lines(loop: cst.For | cst.While) -> Iterator[cst.CSTNode]:
    yield from loop.body.body


def _number(context: Context, change: Planned, epoch: Epoch) -> str:
    """The script's own count; ``for _ in range(n)`` gets a name for it."""
    if epoch.number != "_" or not isinstance(epoch.loop, cst.For):
        return epoch.number
    bound = {name for scope in context.index.scopes.values() for name in scope.bindings}
    if "epoch" in bound or context.plan.taken(epoch.loop.target):
        return ""
    change.replace(epoch.loop.target, "epoch")
    return "epoch"


def _as_native(context: Context, feed: Feed) -> None:
    sampler = value_of(feed.call, "sampler", 3)
    around = context.replicas.feeds.epochs_of(feed)
    if sampler is not None and around and _ours(context, sampler):
        message = "set_epoch is never called: every epoch has the same order, as in the native program"
        context.plan.report(SAME_ORDER, sampler, message, _ADVICE, severity=Severity.INFO)
