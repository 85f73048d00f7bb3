"""Optimizers: SGD, Adam and AdamW become their syncfree twins beside AMP; ``fused=True`` goes.

A syncfree optimizer takes exactly the arguments of the torch one that it derives from, and is bitwise that
one unless a scaler of torch_xla tells it about infinite gradients.
Sources: pytorch/xla v1.11 to v2.9, ``torch_xla/amp/syncfree``; guide "Automatic mixed precision"; pytorch
v2.9, ``torch/optim/adam.py`` (``fused=True`` raises on XLA tensors).
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles import Kind
from xla_transforms.roles.facts import of_kind
from xla_transforms.tree import string_value

SYNCFREE = Rule(
    "XLA401",
    "syncfree-optimizer",
    "Beside AMP, SGD, Adam and AdamW become their syncfree twins.",
    "They decide on the device whether a step is skipped (pytorch/xla guide: AMP for XLA devices).",
)
FUSED = Rule(
    "XLA402",
    "fused-optimizer",
    "fused=True is taken out.",
    "CUDA's fused kernels raise a RuntimeError on XLA tensors; XLA fuses the step by itself.",
)
NO_TWIN = Rule(
    "XLA403",
    "no-syncfree-twin",
    "An optimizer that has no syncfree twin stays as it is.",
    "torch_xla has syncfree versions of SGD, Adam and AdamW alone.",
    safety=Safety.DISPLAY,
)
CHOSEN = Rule(
    "XLA404",
    "optimizer-by-name",
    "An optimizer whose class is chosen at run time stays as it is.",
    "Its class is not known before the script runs.",
    safety=Safety.DISPLAY,
)
CUDA_ONLY = Rule(
    "XLA405",
    "cuda-only-optimizer",
    "An optimizer of a package that exists for CUDA alone has no counterpart on XLA.",
    "apex and bitsandbytes update the parameters with CUDA kernels of their own.",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (SYNCFREE, FUSED, NO_TWIN, CHOSEN, CUDA_ONLY)

_FOREIGN = ("apex.optimizers.", "apex.contrib.optimizers.", "bitsandbytes.optim.", "deepspeed.ops.")
_HELPERS = ("torch.optim.lr_scheduler.", "torch.optim.swa_utils.", "torch.optim.Optimizer")
_DOCS = "https://docs.pytorch.org/docs/stable/optim.html"
_ADVICE = {
    "FusedAdam": "write torch.optim.AdamW with weight_decay=0.0 (FusedAdam's default), or Adam where "
    "adam_w_mode=False",
    "DeepSpeedCPUAdam": "write torch.optim.AdamW with weight_decay=0.0 (its default), or Adam where "
    "adamw_mode=False",
    "FusedSGD": "write torch.optim.SGD with the same arguments",
}


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    for call in list(context.index.all(cst.Call)):
        assert isinstance(call, cst.Call)
        if not context.roles.dead(call):
            _optimizer(context, call, context.syncfree_twins)


def _optimizer(context: Context, call: cst.Call, twins: bool) -> None:
    path = _class_path(context, call)
    if path.startswith(_FOREIGN):
        if not context.plan.claims(call):
            _foreign(context, call, path)
    elif path.startswith("torch.optim.") and not path.startswith(_HELPERS):
        _drop_fused(context, call)
        if twins:
            _twin(context, call, path.split(".")[-1])
    elif path in ("transformers.AdamW", "transformers.optimization.AdamW") and twins:
        message = "transformers' AdamW has no syncfree twin and stays as it is"
        advice = "AdamW of torch wants eps=1e-6, weight_decay=0.0 written out to compute nearly the same"
        context.plan.report(NO_TWIN, call, message, advice)
    elif not path and _chosen_at_run_time(context, call):
        _drop_fused(context, call)
        text = context.index.source.code(call.func)
        advice = "fused=True must not reach it" if call.args else ""
        context.plan.report(CHOSEN, call, f"which optimizer {text} gives is not known; it stays", advice)


def _class_path(context: Context, call: cst.Call) -> str:
    """The dotted path of the optimizer's class, also where a variable holds it."""
    found = {f.detail for f in of_kind(context.roles.facts(call), Kind.OPTIMIZER) if f.node is call}
    return found.pop() if len(found) == 1 else ""


def _chosen_at_run_time(context: Context, call: cst.Call) -> bool:
    """``getattr(torch.optim, name)(...)`` and classes looked up in a table."""
    made = call.func
    if isinstance(made, cst.Call) and context.roles.path(made.func) == "builtins.getattr" and made.args:
        return context.roles.path(made.args[0].value) == "torch.optim"
    if isinstance(made, cst.Subscript):
        facts = context.roles.facts(made)
        return bool(facts) and any(f.detail.startswith("torch.optim.") for f in of_kind(facts, Kind.NAME))
    return False


def _foreign(context: Context, call: cst.Call, path: str) -> None:
    name = path.split(".")[-1]
    advice = _ADVICE.get(name, "choose an optimizer of torch.optim; mind that the defaults differ")
    message = f"{name} needs {path.split('.')[0]}, which runs on CUDA alone"
    context.plan.report(CUDA_ONLY, call, message, f"{advice}: {_DOCS}")


def _twin(context: Context, call: cst.Call, name: str) -> None:
    paths = context.roles.spelled(call.func)
    if name not in context.target.syncfree:
        message = f"{name} has no syncfree twin and stays as it is"
        context.plan.report(NO_TWIN, call, message)
    elif len(paths) == 1 and next(iter(paths)).startswith("torch.optim."):
        if context.plan.free(call.func) and not context.plan.claims(call):
            change = context.plan.change(SYNCFREE, call, f"{name} beside AMP becomes its syncfree twin")
            change.replace(call.func, f"{change.use(context.target.syncfree_module)}.{name}")
    else:
        text = context.index.source.code(call.func)
        context.plan.report(CHOSEN, call, f"{text} holds the class of an optimizer; it stays")


def _drop_fused(context: Context, call: cst.Call) -> None:
    for holder, items in _argument_lists(context, call):
        gone = [item for item in items if _says_fused(item)]
        if gone and not any(context.plan.claims(item) for item in gone):
            message = "fused=True raises on XLA tensors"
            change = context.plan.change(FUSED, gone[0], message)
            change.drop(items, gone)
            told = "the fused implementation is CUDA's; it is left out"
            context.plan.report(FUSED, holder, told, fixed=True)


def _argument_lists(context: Context, call: cst.Call) -> Iterator[tuple[cst.CSTNode, list[cst.CSTNode]]]:
    """The arguments of a call, and those it takes from dictionaries by ``**``."""
    yield call, list(call.args)
    for arg in call.args:
        if arg.star != "**":
            continue
        for item in of_kind(context.roles.facts(arg.value), Kind.MAPPING):
            if item.node is None or context.roles.index(item.node) is not context.index:
                continue
            if isinstance(item.node, cst.Dict):
                yield item.node, list(item.node.elements)
            elif isinstance(item.node, cst.Call):
                yield item.node, list(item.node.args)


def _says_fused(item: cst.CSTNode) -> bool:
    if isinstance(item, cst.Arg):
        return item.keyword is not None and item.keyword.value == "fused" and not _off(item.value)
    if isinstance(item, cst.DictElement):
        return string_value(item.key) == "fused" and not _off(item.value)
    return False


def _off(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Name) and value.value in ("False", "None")
