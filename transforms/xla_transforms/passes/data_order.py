"""Data that is split or shuffled by a generator without a seed: each replica would do it in a way of its own.

torch's generator is seeded alike in every process; those of Python and NumPy are not.
Source: the documentation of ``random.seed`` and ``numpy.random.seed``: without a seed the system gives one.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.statements import live_calls

UNSEEDED = Rule(
    "XLA519",
    "order-of-each-replica",
    "Data is put in order by a generator that each replica starts otherwise.",
    "Replicas that split or shuffle the data in different ways do not part it: what one trains on another "
    "one may evaluate on (documentation of random.seed and numpy.random.seed).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (UNSEEDED,)

_SEEDS = {"random": "random.seed", "numpy.random": "numpy.random.seed"}
_ORDERS = frozenset({"shuffle", "sample", "permutation", "choice", "choices"})


def run(context: Context) -> None:
    if not context.distributed or context.already_xla or context.replicas.native:
        return
    for call, path in live_calls(context):
        module, _, name = path.rpartition(".")
        if module in _SEEDS and name in _ORDERS and _of_all(context, call) and not _seeded(context, module):
            message = f"{path} has no seed: every replica gets another order"
            context.plan.report(UNSEEDED, call, message, f"call {_SEEDS[module]} with the same seed in each")


def _of_all(context: Context, call: cst.Call) -> bool:
    """Whether a call is made once, before the training: in no class and in no loop."""
    kinds = (cst.ClassDef, cst.For, cst.While, cst.Lambda)
    return not any(isinstance(a, kinds) for a in context.index.ancestors(call))


def _seeded(context: Context, module: str) -> bool:
    return any(context.roles.path(c.func) == _SEEDS[module] for c in context.program.calls.get("seed", ()))
