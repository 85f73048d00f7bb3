"""Samplers: each replica reads its own part of the data.

Source: pytorch v2.9, ``torch/utils/data/distributed.py``: without ``num_replicas`` and ``rank`` the sampler
asks the process group; pytorch/xla#7904: a device loader does not part the data.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.plan import Planned
from xla_transforms.statements import live_calls
from xla_transforms.tree import argument, has_star

SAMPLER = Rule(
    "XLA511",
    "sampler-replicas",
    "A DistributedSampler is told world size and rank by the XLA runtime.",
    "Without them it asks a process group, which is gone (torch/utils/data/distributed.py).",
)
RULES = (SAMPLER,)

_PATHS = ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler")


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    for call, path in live_calls(context):
        if path in _PATHS and not has_star(call):
            _place(context, call)


def _place(context: Context, call: cst.Call) -> None:
    wanted = [
        (name, spelling)
        for name, position, spelling in (
            ("num_replicas", 1, context.target.world_size),
            ("rank", 2, context.target.ordinal),
        )
        if argument(call, name, position) is None
    ]
    if wanted and call.args:
        change = context.plan.change(SAMPLER, call, "the sampler asks the XLA runtime")
        added = [f"{name}={change.spell(spelling)}" for name, spelling in wanted]
        _insert(change, call, added)


def _insert(change: Planned, call: cst.Call, added: list[str]) -> None:
    """Behind the arguments by position."""
    positional = [arg for arg in call.args if arg.keyword is None]
    change.wrap((positional or call.args)[-1], "{0}, " + ", ".join(added))
