"""Code that asks for the ``module.`` in front of a wrapped model's keys, where nothing is wrapped any more.

A name that is asked for and not found is passed over in silence: weights stay what they were.
Source: pytorch v2.9, ``torch/nn/parallel/distributed.py``: the wrapped model is the child ``module``.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles.catalog import DATA_PARALLEL, DISTRIBUTED_DATA_PARALLEL
from xla_transforms.tree import argument, method, number_value, receiver, same, string_value, walk
from xla_transforms.wrappers import Wrappers

KEYS = Rule(
    "XLA124",
    "keys-without-wrapper",
    "Code asks for keys that begin with 'module.', which a model without its wrapper does not write.",
    "DataParallel and DistributedDataParallel put 'module.' in front of the keys of their state_dict(); the "
    "migrated script saves the model itself. Checkpoints of native runs keep the prefix.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (KEYS,)

_PREFIX = "module."
_ADVICE = "take keys with and without it: key.removeprefix('module.')"


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla or not context.program.mentions(_PREFIX):
        return
    for node, message in _asked(context):
        if context.once(_saved_wrapped):
            context.plan.report(KEYS, node, f"{message}: the model is saved without it now", _ADVICE)


def _saved_wrapped(context: Context) -> bool:
    """Whether the state of a wrapper, not that of its model, is asked for anywhere in the program."""
    paths = {*DATA_PARALLEL, *(DISTRIBUTED_DATA_PARALLEL if context.distributed else ())}
    wrappers = Wrappers(context.roles, paths)
    return any(wrappers.holds(receiver(c)) for c in context.program.calls.get("state_dict", ()))


def _asked(context: Context) -> Iterator[tuple[cst.CSTNode, str]]:
    for call in context.index.all(cst.Call):
        assert isinstance(call, cst.Call)
        if method(call) == "startswith" and _needed(context, call):
            yield call, "keys are chosen by the prefix 'module.'"
    for cut in context.index.all(cst.Subscript):
        assert isinstance(cut, cst.Subscript)
        if _cuts(cut) and _is_key(context, cut.value) and not _asked_before(context, cut):
            yield cut, f"the first {len(_PREFIX)} letters of keys are cut off, which was 'module.'"
    for added in context.index.all(cst.BinaryOperation):
        assert isinstance(added, cst.BinaryOperation)
        if isinstance(added.operator, cst.Add) and _prefixed(added.left):
            yield added, "keys are given the prefix 'module.'"


def _cuts(node: cst.Subscript) -> bool:
    """Whether a text is taken from behind the length of the prefix on: ``key[7:]``."""
    part = node.slice[0].slice if len(node.slice) == 1 else None
    behind = isinstance(part, cst.Slice) and part.upper is None and part.step is None
    return behind and isinstance(part, cst.Slice) and number_value(part.lower) == len(_PREFIX)


def _is_key(context: Context, node: cst.BaseExpression) -> bool:
    """Whether a variable goes through the keys of a mapping."""
    bindings = context.roles.bindings(node) if isinstance(node, cst.Name) else []
    return bool(bindings) and all(method(b.value) in ("items", "keys") for b in bindings)


def _asked_before(context: Context, node: cst.CSTNode) -> bool:
    """Whether a choice around a node asks how a text begins, or another way was tried and failed."""
    if any(isinstance(a, cst.ExceptHandler) for a in context.index.ancestors(node)):
        return True
    around = (a.test for a in context.index.ancestors(node) if isinstance(a, (cst.If, cst.IfExp)))
    return any(method(part) == "startswith" for test in around for part in walk(test))


def _prefixed(node: cst.CSTNode | None) -> bool:
    return (string_value(node) or "").startswith(_PREFIX)


def _needed(context: Context, call: cst.Call) -> bool:
    """Whether keys without the prefix are passed over: others are not taken in another way beside it."""
    asked = argument(call, "prefix", 0)
    if asked is None or not _prefixed(asked.value):
        return False
    if string_value(asked.value) != _PREFIX:
        return True
    around = context.index.statement_of(call)
    if not isinstance(around, cst.If) or around.test is not call or around.orelse is not None:
        return False
    loop = next((a for a in context.index.ancestors(around) if isinstance(a, cst.For)), None)
    held = [n for n in walk(loop.iter) if isinstance(n, cst.Name)] if loop is not None else []
    stored = (n.target for n in walk(around.body) if isinstance(n, cst.AssignTarget))
    places = [target.value for target in stored if isinstance(target, cst.Subscript)]
    return any(not any(same(place, name) for name in held) for place in places)
