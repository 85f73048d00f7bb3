"""DataParallel: the wrapper goes, ``.module`` is the model itself.

``nn.DataParallel`` splits each batch over the GPUs of one process; an XLA process has one device, and the
wrapper would silently pass through (pytorch/xla#1735: "do not use nn.DataParallel").
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.roles.catalog import DATA_PARALLEL
from xla_transforms.tree import value_of
from xla_transforms.unwrapping import unwrap, unwrap_modules
from xla_transforms.wrappers import Wrappers

WRAPPER = Rule(
    "XLA121",
    "data-parallel",
    "nn.DataParallel goes away: one process computes on one XLA device.",
    "DataParallel split the batch over the GPUs; one XLA device takes it whole (pytorch/xla#1735).",
    Severity.WARNING,
)
MODULE = Rule(
    "XLA122",
    "data-parallel-module",
    "The .module of a DataParallel wrapper is the model itself.",
    "The wrapper is gone, and its attribute with it.",
)
RULES = (WRAPPER, MODULE)

_FUNCTIONS = frozenset({"torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel"})
_MESSAGE = (
    "DataParallel split each batch over all GPUs; one XLA device takes the whole batch. Trained on "
    "W devices, each replica needs 1/W of it for the same global batch"
)
_KEYS = "; the wrapper's state_dict() had keys that begin with 'module.'"


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    with context.plan.together("data parallel"):
        _unwrapped(context)


def _wrappers(context: Context) -> Wrappers:
    return Wrappers(context.roles, DATA_PARALLEL)


def _unwrapped(context: Context) -> None:
    wrappers = context.once(_wrappers)
    for call in list(context.index.all(cst.Call)):
        assert isinstance(call, cst.Call)
        if not context.plan.free(call):
            continue
        if wrappers.makes(call):
            advice = "check batch size and learning rate, and the keys of older checkpoints"
            context.plan.report(WRAPPER, call, _MESSAGE + _KEYS, advice)
            change = context.plan.change(WRAPPER, call, "one process computes on one XLA device")
            unwrap(context, change, call)
        elif context.roles.path(call.func) in _FUNCTIONS:
            _function(context, call)
    unwrap_modules(context, wrappers, MODULE)


def _function(context: Context, call: cst.Call) -> None:
    """``data_parallel(module, inputs, ids)`` is ``module(inputs)`` on one device."""
    module, inputs = value_of(call, "module", 0), value_of(call, "inputs", 1)
    if module is None or inputs is None or value_of(call, "module_kwargs", 5) is not None:
        return
    change = context.plan.change(WRAPPER, call, "one process computes on one XLA device")
    change.replace(call, "{0}(*{1})" if isinstance(inputs, cst.Tuple) else "{0}({1})", module, inputs)

