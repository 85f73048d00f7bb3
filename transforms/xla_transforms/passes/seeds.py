"""Seeds: the XLA device has a generator of its own, which torch.manual_seed does not seed.

``torch.cuda.manual_seed(_all)`` becomes ``torch_xla.manual_seed``. On CUDA ``torch.manual_seed`` seeded the
device too, so that one is added behind it where the script does not seed the device itself.
Source: pytorch/xla v2.9.0, ``torch_xla/torch_xla.py``, ``manual_seed``.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.placing import is_test
from xla_transforms.placing.flags import is_flag
from xla_transforms.plan import Planned
from xla_transforms.roles import Kind
from xla_transforms.scopes import ModuleIndex
from xla_transforms.statements import bare, has_call, live_calls, migrating
from xla_transforms.tree import same, string_value, value_of

DEVICE_SEED = Rule(
    "XLA221",
    "device-seed",
    "The XLA device's generator is seeded where CUDA's was.",
    "torch.manual_seed does not reach the XLA device; unseeded, every process starts it from one constant "
    "(pytorch/xla v2.9.0, torch_xla.py, manual_seed).",
)
UNSEEDED = Rule(
    "XLA222",
    "device-not-seeded",
    "A seed stands where no statement can follow it; the XLA device is not seeded there.",
    "torch.manual_seed does not reach the XLA device.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (DEVICE_SEED, UNSEEDED)

_CUDA = frozenset({"torch.cuda.manual_seed", "torch.cuda.manual_seed_all"})
_CPU = frozenset({"torch.manual_seed", "torch.random.manual_seed"})
_WORKERS = "worker_init_fn"


def run(context: Context) -> None:
    if not migrating(context):
        return
    calls = [(call, path) for call, path in live_calls(context) if path in _CUDA | _CPU]
    if context.distributed:  # a launch refuses what touched the device; its processes seed their own
        early = [call for call, _ in calls if context.replicas.starts.before(call)]
        calls = [(call, path) for call, path in calls if call not in early or path in _CUDA]
    workers = context.once(_worker_functions)
    done: list[cst.Call] = []
    for call, path in calls:
        if path in _CUDA:
            _seed_device(context, call, done, in_worker=context.index.function_of(call) in workers)
    if context.already_xla or (is_test(context.index) and not context.speaks_of_gpu):
        return
    for call, path in calls:
        seeded = any(_covers(context, other, call) for other in done)
        if path in _CPU and not seeded and context.index.function_of(call) not in workers:
            _add(context, call)


def _worker_functions(context: Context) -> set[cst.CSTNode | None]:
    """The functions that the program's loaders run in their workers, which have no device."""
    values = [v for index in context.program.modules.values() for v in _given_to_workers(index)]
    facts = (fact for value in values for fact in context.roles.facts(value))
    return {fact.node for fact in facts if fact.kind is Kind.FUNCTION and fact.node is not None}


def _given_to_workers(index: ModuleIndex) -> Iterator[cst.BaseExpression]:
    """``worker_init_fn=f``, in a call or by a dictionary: ``{"worker_init_fn": f}``, ``options[...] = f``."""
    if _WORKERS not in index.source.text:
        return
    for arg in index.all(cst.Arg):
        if isinstance(arg, cst.Arg) and arg.keyword is not None and arg.keyword.value == _WORKERS:
            yield arg.value
    for entry in index.all(cst.DictElement):
        if isinstance(entry, cst.DictElement) and string_value(entry.key) == _WORKERS:
            yield entry.value
    for assign in index.all(cst.Assign):
        if isinstance(assign, cst.Assign) and any(map(_names_workers, assign.targets)):
            yield assign.value


def _names_workers(target: cst.AssignTarget) -> bool:
    place = target.target
    if isinstance(place, cst.Attribute):
        return place.attr.value == _WORKERS
    first = place.slice[0].slice if isinstance(place, cst.Subscript) else None
    return isinstance(first, cst.Index) and string_value(first.value) == _WORKERS


def _seed_device(
    context: Context, call: cst.Call, done: list[cst.Call], *, in_worker: bool
) -> None:
    seed, statement = value_of(call, "seed", 0), bare(context, call)
    if seed is None:
        return
    twin = any(_same_block(context, call, other) and same(seed, value_of(other, "seed", 0)) for other in done)
    change = context.plan.change(DEVICE_SEED, call, "the XLA device's generator takes the seed")
    early = context.distributed and context.replicas.starts.before(call)
    if statement is not None and (twin or in_worker or early):
        change.remove(statement)
        return
    done.append(call)
    change.replace(call, change.spell(context.target.manual_seed), seed)


def _same_block(context: Context, left: cst.CSTNode, right: cst.CSTNode) -> bool:
    blocks = []
    for node in (left, right):
        line = context.index.statement_of(node)
        blocks.append(context.index.parent(line) if line is not None else None)
    return blocks[0] is not None and blocks[0] is blocks[1]


def _covers(context: Context, other: cst.Call, call: cst.Call) -> bool:
    """Whether the script itself seeds the device, wherever it seeds the CPU by ``call``."""
    if context.index.function_of(other) is not context.index.function_of(call):
        return False
    around = set(context.index.ancestors(call))
    for node in context.index.ancestors(other):
        if node in around:
            return True
        if isinstance(node, cst.If):
            if context.roles.fold(node.test) is not True and not is_flag(node.test):
                return False
        elif isinstance(node, (cst.For, cst.While, cst.Try, cst.ExceptHandler)):
            return False
    return True


def _add(context: Context, call: cst.Call) -> None:
    seed = value_of(call, "seed", 0)
    statement = context.index.statement_of(call)
    small = _small(context, call)
    if seed is None or small is None or statement is None or isinstance(small, cst.Return):
        advice = f"call {context.target.manual_seed.shown('seed')} with the same seed"
        context.plan.report(UNSEEDED, call, "torch.manual_seed alone does not seed the XLA device", advice)
        return
    change = context.plan.change(DEVICE_SEED, call, "torch.manual_seed does not reach the XLA device")
    text = _spelled(context, change, call, seed)
    if isinstance(statement, cst.SimpleStatementLine):
        change.after(statement, text)
    else:
        change.wrap(small, "{0}; " + text.replace("{", "{{").replace("}", "}}"))


def _spelled(context: Context, change: Planned, call: cst.Call, seed: cst.BaseExpression) -> str:
    """The seed is written again, or asked for where asking twice would give another one."""
    text = context.index.source.code(seed)
    if has_call(seed) or "\n" in text:
        text = f"{change.use('torch')}.initial_seed()"
    return change.spell(context.target.manual_seed).replace("{0}", text)


def _small(context: Context, call: cst.Call) -> cst.CSTNode | None:
    """The small statement a call stands in, unless a lambda or a comprehension runs it."""
    for node in context.index.ancestors(call):
        if isinstance(node, cst.BaseSmallStatement):
            return node
        if isinstance(node, (cst.Lambda, cst.CompFor, cst.BaseCompoundStatement)):
            return None
    return None
