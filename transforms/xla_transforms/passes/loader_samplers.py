"""Loaders of a program of one process: for training each gets a sampler that parts its data.

Evaluation stays whole: every replica reads all of it and finds the same numbers, as the program did.
Sources: pytorch v2.9, ``torch/utils/data/distributed.py``, ``dataloader.py`` (a sampler excludes
``shuffle``); pytorch/xla#7904; pytorch/pytorch#25162 (padded duplicates distort metrics).
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.loops.effects import Effect
from xla_transforms.plan import Planned
from xla_transforms.replicas.feeds import PLAIN, Feed
from xla_transforms.replicas.keywords import keys_given
from xla_transforms.tree import argument, has_star, value_of

PARTED = Rule(
    "XLA514",
    "sampler-added",
    "A training loader gets a DistributedSampler: each replica reads its own part.",
    "A device loader does not part the data: every replica would train on all of it (pytorch/xla#7904).",
)
UNPARTED = Rule(
    "XLA515",
    "data-not-parted",
    "The data of a training loader is not parted among the replicas.",
    "Every replica reads all of it: the work of all for the progress of one (pytorch/xla#7904).",
    Severity.ERROR,
    Safety.DISPLAY,
)
WHOLE = Rule(
    "XLA516",
    "evaluation-whole",
    "Every replica evaluates on all of the data.",
    "A DistributedSampler pads to equal parts, and what it repeats counts twice (pytorch/pytorch#25162).",
    safety=Safety.DISPLAY,
)
RULES = (PARTED, UNPARTED, WHOLE)

_SAMPLER = "torch.utils.data.DistributedSampler"
_LONG = 94
_ADVICE = "part it by xr.global_ordinal() and xr.world_size(), with as many batches on each replica"


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    for call, feed in context.replicas.feeds.all.items():
        if context.roles.index(call) is context.index and context.plan.free(call):
            if context.replicas.native:
                _as_native(context, feed)
            else:
                _of_one(context, feed)
    if not context.replicas.native:
        _drawn_otherwise(context)


def _as_native(context: Context, feed: Feed) -> None:
    """What the native processes did not part is not parted now: it trains as it did, and is told."""
    feeds, call = context.replicas.feeds, feed.call
    own = argument(call, "batch_sampler", 4) is not None or feeds.parts_itself(call)
    if not feed.trains or feeds.shared(call) or has_star(call) or own:
        return
    what = "what its data set yields" if feeds.iterable(call) else "its whole data set"
    message = f"every replica draws from {what}, as every native process did"
    advice = "leave it where the data set itself gives each process its part; else a DistributedSampler does"
    context.plan.report(UNPARTED, call, message, advice, severity=Severity.WARNING)


def _of_one(context: Context, feed: Feed) -> None:
    if feed.trains and feed.call in context.replicas.feeds.parted:
        _part(context, feed)
        if feed.evaluates:
            message = "an evaluation goes through this training loader: each replica sees its own part"
            advice = "sum what it counts by xm.mesh_reduce, or make a loader of its own for it"
            context.plan.report(WHOLE, feed.call, message, advice, severity=Severity.WARNING)
    elif feed.trains:
        reason = context.replicas.feeds.refusal(feed)
        context.plan.report(UNPARTED, feed.call, f"every replica reads all of this loader: {reason}", _ADVICE)
    elif feed.evaluates:
        message = "every replica evaluates on all of the data, and finds the same numbers"
        advice = "to share the work give it a DistributedSampler and sum counts by xm.mesh_reduce"
        context.plan.report(WHOLE, feed.call, message, advice)
    else:
        message = "it is not seen what this loader feeds: every replica reads all of it"
        context.plan.report(UNPARTED, feed.call, message, _ADVICE, severity=Severity.WARNING)


def _drawn_otherwise(context: Context) -> None:
    """Training loops that get their batches from no data loader of the program."""
    drawing = {loop for feed in context.replicas.feeds.all.values() for loop in feed.steps}
    training = [loop.node for loop in context.loops.all if loop.effect & Effect.BACKWARD]
    for loop in training:
        around = set(context.index.ancestors(loop))
        if not (drawing | set(training)) & around and loop not in drawing:
            message = "it is not seen where these batches come from: every replica may train on the same ones"
            context.plan.report(UNPARTED, loop, message, _ADVICE)


def _part(context: Context, feed: Feed) -> None:
    feeds, call = context.replicas.feeds, feed.call
    change = context.plan.change(PARTED, call, "each replica reads its own part")
    data = value_of(call, "dataset", 0)
    assert data is not None
    plain = feeds.plain_sampler(call)
    if plain is not None:
        text, shuffle = context.index.source.code(plain.args[0].value), PLAIN[context.roles.path(plain.func)]
        parts = _arguments(context, change, call, text, str(shuffle))
        change.replace(plain, f"{change.use(_SAMPLER)}({', '.join(parts)})")
        return
    line = context.index.statement_of(call)
    assert line is not None
    name, text = feeds.sampler_name(call), context.index.source.code(data)
    if not isinstance(data, (cst.Name, cst.Attribute)):
        stored = feeds.data_name(call)
        change.before(line, f"{stored} = {text}")
        change.replace(data, stored)
        text = stored
    parts = _arguments(context, change, call, text, _order(context, call))
    change.before(line, *_lines(context, f"{name} = {change.use(_SAMPLER)}", parts))
    _give(change, call, name)


def _order(context: Context, call: cst.Call) -> str:
    """What says whether the sampler shuffles: the loader's own argument, which leaves it."""
    given, keys = value_of(call, "shuffle", 2), keys_given(context.roles, call) or ()
    if given is None and "shuffle" in keys:
        return f'{context.replicas.feeds.spread(call)}.pop("shuffle", False)'
    return context.index.source.code(given) if given is not None else "False"


def _arguments(context: Context, change: Planned, call: cst.Call, data: str, shuffle: str) -> list[str]:
    world_size, rank = change.spell(context.target.world_size), change.spell(context.target.ordinal)
    parts = [data, f"num_replicas={world_size}", f"rank={rank}", f"shuffle={shuffle}"]
    drop_last, keys = value_of(call, "drop_last", 8), keys_given(context.roles, call) or ()
    if drop_last is not None:
        parts.append(f"drop_last={context.index.source.code(drop_last)}")
    elif "drop_last" in keys:
        parts.append(f'drop_last={context.replicas.feeds.spread(call)}.get("drop_last", False)')
    return parts


def _give(change: Planned, call: cst.Call, name: str) -> None:
    """``sampler=`` in the place of ``shuffle=``, of a ``sampler=None``, or behind the last argument."""
    shuffle, sampler = argument(call, "shuffle", 2), argument(call, "sampler", 3)
    if sampler is not None:
        change.replace(sampler.value, name)
        if shuffle is not None:
            change.replace(shuffle.value, "False")
    elif shuffle is not None:
        change.replace(shuffle, f"sampler={name}")
    else:
        change.wrap([a for a in call.args if not a.star][-1], f"{{0}}, sampler={name}")


def _lines(context: Context, head: str, parts: list[str]) -> list[str]:
    """A call in one line, over three where it is long, or with a line for each argument."""
    inner, indent = ", ".join(parts), context.index.source.indent
    if len(head) + len(inner) <= _LONG:
        return [f"{head}({inner})"]
    if len(inner) <= _LONG:
        return [f"{head}(", f"{indent}{inner}", ")"]
    return [f"{head}(", *(f"{indent}{part}," for part in parts), ")"]
