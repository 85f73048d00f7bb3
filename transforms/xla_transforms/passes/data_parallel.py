"""DataParallel: the wrapper goes, ``.module`` is the model itself.

``nn.DataParallel`` splits each batch over the GPUs of one process; an XLA process has one device, and the
wrapper would silently pass through (pytorch/xla#1735: "do not use nn.DataParallel").
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.tree import dotted, same, string_value, value_of

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

_PATHS = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel.DataParallel",
    }
)
_FUNCTIONS = frozenset({"torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel"})
_MESSAGE = (
    "DataParallel split each batch over all GPUs; one XLA device takes the whole batch. Trained on "
    "W devices, each replica needs 1/W of it for the same global batch"
)
_KEYS = "; the wrapper's state_dict() had keys that begin with 'module.'"


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    wrapped: list[cst.BaseExpression] = []
    for call in list(context.index.all(cst.Call)):
        assert isinstance(call, cst.Call)
        inner = value_of(call, "module", 0)
        if context.roles.path(call.func) in _PATHS and inner is not None and context.plan.free(call):
            wrapped += _unwrap(context, call, inner)
        elif context.roles.path(call.func) in _FUNCTIONS and context.plan.free(call):
            _function(context, call)
    if wrapped:
        for node in list(context.index.all(cst.Attribute)):
            if isinstance(node, cst.Attribute) and node.attr.value == "module":
                _module(context, node, wrapped)


def _function(context: Context, call: cst.Call) -> None:
    """``data_parallel(module, inputs, ids)`` is ``module(inputs)`` on one device."""
    module, inputs = value_of(call, "module", 0), value_of(call, "inputs", 1)
    if module is None or inputs is None or value_of(call, "module_kwargs", 5) is not None:
        return
    change = context.plan.change(WRAPPER, call, "one process computes on one XLA device")
    change.replace(call, "{0}(*{1})" if isinstance(inputs, cst.Tuple) else "{0}({1})", module, inputs)


def _unwrap(context: Context, call: cst.Call, inner: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Take a wrapper away; gives what held it."""
    assign = _assignment(context, call)
    targets: list[cst.BaseExpression] = [t.target for t in assign.targets] if assign is not None else []
    advice = "check batch size and learning rate, and the keys of older checkpoints"
    context.plan.report(WRAPPER, call, _MESSAGE + _KEYS, advice)
    change = context.plan.change(WRAPPER, call, "one process computes on one XLA device")
    if assign is not None and assign.value is call and len(targets) == 1 and same(targets[0], inner):
        change.remove(assign)
    else:
        change.replace(call, "{0}", inner)
    return targets


def _assignment(context: Context, call: cst.Call) -> cst.Assign | None:
    """The assignment of a wrapper, also of ``nn.DataParallel(model).cuda()``."""
    for parent in context.index.ancestors(call):
        if isinstance(parent, cst.Assign):
            return parent
        if not isinstance(parent, (cst.Attribute, cst.Call, cst.IfExp)):
            return None
    return None


def _module(context: Context, node: cst.Attribute, wrapped: list[cst.BaseExpression]) -> None:
    base = node.value
    if not any(_alike(context, base, holder) for holder in wrapped) or not context.plan.free(node):
        return
    choice = context.index.parent(node)
    change = context.plan.change(MODULE, node, "the model is no longer wrapped")
    if isinstance(choice, cst.IfExp) and choice.body is node and _either(context, choice, base):
        change.replace(choice, "{0}", choice.orelse)
    else:
        change.replace(node, "{0}", base)


def _either(context: Context, choice: cst.IfExp, base: cst.BaseExpression) -> bool:
    """``model.module if hasattr(model, "module") else model``."""
    return same(choice.orelse, base) and _asks_for_wrapper(context, choice.test, base)


def _alike(context: Context, base: cst.BaseExpression, holder: cst.BaseExpression) -> bool:
    if same(base, holder):
        return True
    name = dotted(base).split(".")[-1]
    return bool(name) and name == dotted(holder).split(".")[-1]


def _asks_for_wrapper(context: Context, test: cst.BaseExpression, base: cst.BaseExpression) -> bool:
    """``hasattr(model, "module")`` or ``isinstance(model, nn.DataParallel)``."""
    if not isinstance(test, cst.Call) or len(test.args) != 2 or not same(test.args[0].value, base):
        return False
    path, second = context.roles.path(test.func), test.args[1].value
    if path == "builtins.hasattr":
        return string_value(second) == "module"
    return path == "builtins.isinstance" and context.roles.path(second) in _PATHS
