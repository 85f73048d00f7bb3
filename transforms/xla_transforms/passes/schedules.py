"""Schedules and learning rates that the number of replicas changes.

Replicas take an N-th of the steps for the same data. A schedule that counts by the loader's length goes
along; one that counts by the size of the data set, or a fixed number of steps, does not.
Source: PyTorch, ``torch/optim/lr_scheduler.py``; pytorch/xla#1012 (steps of a replica).
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.replicas.numbers import Amount, plain
from xla_transforms.roles import Kind
from xla_transforms.roles.structure import loaders_behind
from xla_transforms.scopes import How, parameters
from xla_transforms.statements import live_calls
from xla_transforms.tree import LOOPS, children, method, receiver, value_of, walk

STEPS = Rule(
    "XLA175",
    "steps-of-all-data",
    "A schedule counts steps by the size of the data set.",
    "Each replica takes the steps of its own share (pytorch/xla#1012).",
    Severity.WARNING,
    Safety.DISPLAY,
)
FIXED = Rule(
    "XLA179",
    "fixed-steps",
    "A schedule of a script for one process counts a fixed number of steps.",
    "On N replicas as many steps see N times the data: the learning rate falls later, or never "
    "(pytorch/xla#1012).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RATE = Rule(
    "XLA178",
    "rate-by-replicas",
    "The learning rate is computed from the number of replicas.",
    "There are as many replicas as XLA devices, which need not be as many as there were GPUs "
    "(pytorch/xla v2.9.0, torch_xla.py, launch).",
    safety=Safety.DISPLAY,
)
RULES = (STEPS, FIXED, RATE)

_SCHEDULERS = "torch.optim.lr_scheduler."
# The arguments that count steps, by their names and positions.
_COUNTS = {
    "StepLR": {"step_size": 1},
    "MultiStepLR": {"milestones": 1},
    "ConstantLR": {"total_iters": 2},
    "LinearLR": {"total_iters": 3},
    "PolynomialLR": {"total_iters": 1},
    "CosineAnnealingLR": {"T_max": 1},
    "CosineAnnealingWarmRestarts": {"T_0": 1},
    "CyclicLR": {"step_size_up": 3, "step_size_down": 4},
    "OneCycleLR": {"total_steps": 2, "steps_per_epoch": 4},
}
_DECAYS = ("ExponentialLR", "MultiplicativeLR")  # each step multiplies
_TRANSFORMERS = {"num_warmup_steps": 1, "num_training_steps": 2}


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    if context.replicas.native:
        for call, path in live_calls(context):
            if path.startswith("torch.optim.") and not path.startswith(_SCHEDULERS):
                _rate(context, call)
        return
    stepped = _stepped_with_batches(context)
    for call, path in live_calls(context):
        if path.startswith(_SCHEDULERS) or (path.startswith("transformers.") and "schedule" in path):
            _schedule(context, call, path, with_batches=call in stepped)


def _rate(context: Context, call: cst.Call) -> None:
    rate = value_of(call, "lr", 1)
    amount = Amount(context.roles, rate) if rate is not None else None
    if amount is None or not amount.follows_replicas:
        return
    numbers = amount.by_replicas
    code = context.index.source.code(amount.node)
    message = f"the learning rate {code} follows the replicas" + (f": {numbers}" if numbers else "")
    advice = "start as many replicas as there were GPUs, or see that the global batch follows likewise"
    context.plan.report(RATE, call, message, advice)


def _stepped_with_batches(context: Context) -> set[cst.CSTNode]:
    """The schedulers of the program that step with each batch."""
    found: set[cst.CSTNode] = set()
    for call in context.program.calls.get("step", ()):
        base = receiver(call)
        if base is None or not context.roles.is_a(base, Kind.SCHEDULER):
            continue
        around = context.roles.index(call).ancestors(call)
        loop = next((a for a in around if isinstance(a, LOOPS)), None)
        if loop is not None and _by_batch(context, loop):
            found |= context.roles.origins(base, Kind.SCHEDULER)
    return found


def _by_batch(context: Context, loop: cst.For | cst.While) -> bool:
    """Whether each turn of a loop is a batch: a loader drives it, or its own statements go backward."""
    if isinstance(loop, cst.For) and loaders_behind(context.roles, loop.iter):
        return True
    waiting: list[cst.CSTNode] = [loop.body]
    while waiting:
        node = waiting.pop()
        if method(node) == "backward":
            return True
        waiting += [child for child in children(node) if not isinstance(child, LOOPS)]
    return False


def _schedule(context: Context, call: cst.Call, path: str, *, with_batches: bool) -> None:
    lengths = (_length(context, arg.value, Kind.DATASET) for arg in call.args)
    if (length := next(filter(None, lengths), None)) is not None:
        text = context.index.source.code(length)
        message = f"it counts steps by {text}: each of N replicas takes an N-th of them"
        context.plan.report(STEPS, call, message, "count by the length of the loader")
    elif with_batches:
        _with_batches(context, call, path)


def _with_batches(context: Context, call: cst.Call, path: str) -> None:
    counts = list(_counts(context, call, path))
    if any(_decays(value) for value in counts) or path.rpartition(".")[2] in _DECAYS:
        message = "each step of one process multiplies: replicas take an N-th of the steps for the same data"
        context.plan.report(FIXED, call, message, "take the N-th power, or divide the batch size")
    elif own := [value for value in counts if _length(context, value, Kind.LOADER) is None]:
        _fixed(context, call, own[0])


def _counts(context: Context, call: cst.Call, path: str) -> Iterator[cst.BaseExpression]:
    """The numbers of steps that a schedule is given, or holds its steps against in its function."""
    name = path.rpartition(".")[2]
    known = _COUNTS.get(name, {}) if path.startswith(_SCHEDULERS) else _TRANSFORMERS
    given = [value_of(call, name, position) for name, position in known.items()]
    yield from (value for value in given if value is not None and getattr(value, "value", "") != "None")
    rule = value_of(call, "lr_lambda", 1) if name == "LambdaLR" else None
    for item in context.roles.facts(rule) if rule is not None else ():
        if isinstance(item.node, (cst.FunctionDef, cst.Lambda)):
            steps = [p.name.value for p in parameters(item.node) if p.name.value != "self"][:1]
            yield from filter(None, (_measure(node, steps) for node in walk(item.node.body)))


def _decays(counted: cst.BaseExpression) -> bool:
    return isinstance(counted, cst.BinaryOperation) and isinstance(counted.operator, cst.Power)


def _measure(node: cst.CSTNode, steps: list[str]) -> cst.BaseExpression | None:
    """What a step is compared with or divided by; a power of which it is the exponent."""
    if isinstance(node, cst.Comparison):
        return node.comparisons[0].comparator if _names(node.left, steps) else None
    if not isinstance(node, cst.BinaryOperation):
        return None
    if isinstance(node.operator, (cst.Divide, cst.FloorDivide, cst.Modulo)) and _names(node.left, steps):
        return node.right
    return node if isinstance(node.operator, cst.Power) and _names(node.right, steps) else None


def _names(node: cst.CSTNode, names: list[str]) -> bool:
    return any(isinstance(n, cst.Name) and n.value in names for n in walk(node))


def _fixed(context: Context, call: cst.Call, counted: cst.BaseExpression) -> None:
    amount = Amount(context.roles, counted)
    number = amount.on(1)
    fewer = f", {plain(number // 4)} on 4 replicas" if number is not None and number >= 4 else ""
    message = (
        f"it counts {amount.text} steps with the batches of one process: replicas take an N-th of the steps "
        f"for the same data{fewer}"
    )
    advice = "divide its counts by the number of replicas, or the batch size and leave the counts"
    context.plan.report(FIXED, call, message, advice)


def _length(context: Context, node: cst.BaseExpression, kind: Kind, depth: int = 0) -> cst.Call | None:
    """``len(...)`` of a data set, or of a loader, in what gives a number."""
    for part in walk(node):
        if isinstance(part, cst.Call) and context.roles.path(part.func) == "builtins.len" and part.args:
            if context.roles.is_a(part.args[0].value, kind):
                return part
        elif isinstance(part, cst.Name) and depth < 3:
            for binding in context.roles.bindings(part):
                value = binding.value if binding.how is How.ASSIGN else None
                found = _length(context, value, kind, depth + 1) if value is not None else None
                if found is not None:
                    return found
    return None
