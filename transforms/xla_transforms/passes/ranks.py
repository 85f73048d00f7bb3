"""Ranks and world sizes: what ``torch.distributed`` or a launcher told a process, the XLA runtime tells it.

Only where a number comes from is written anew; variables, options and parameters carry it on as before.
Source: pytorch/xla v2.9.0, ``torch_xla/runtime.py``: ``global_ordinal``, ``local_ordinal``, ``world_size``.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.replicas import LOCAL_RANK, LOCAL_WORLD_SIZE, RANK, WORLD_SIZE, Style
from xla_transforms.roles import Kind
from xla_transforms.roles.ranks import COUNTS, FUNCTIONS, OPTION, PLACES, SIZES, augmented, is_option
from xla_transforms.statements import bare
from xla_transforms.targets.base import Spelling
from xla_transforms.tree import walk

ASKED = Rule(
    "XLA144",
    "rank",
    "Rank and world size are asked of the XLA runtime.",
    "Neither a process group nor a launcher's environment tells them to processes that torch_xla.launch "
    "starts (pytorch/xla v2.9.0, runtime.py).",
)
EARLY = Rule(
    "XLA145",
    "rank-before-launch",
    "A rank or the number of processes is asked for before there are processes.",
    "Asking the XLA runtime there would initialise it, and torch_xla.launch refuses that "
    "(pytorch/xla v2.9.0, _internal/pjrt.py).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (ASKED, EARLY)


def run(context: Context) -> None:
    if not context.distributed or context.already_xla:
        return
    for node, number in list(_sources(context)):
        if context.roles.dead(node) or not context.plan.free(node) or bare(context, node) is not None:
            continue
        if context.replicas.starts.before(node):
            _early(context, node, number)
        else:
            change = context.plan.change(ASKED, node, f"the XLA runtime tells the {number}")
            text = change.spell(_spelling(context, number))
            if isinstance(node, cst.AugAssign):
                change.replace(node, f"{{0}} = {text}", node.target)
            else:
                change.replace(node, text if _is_number(context, node) else f"str({text})")


def _sources(context: Context) -> Iterator[tuple[cst.BaseExpression | cst.AugAssign, str]]:
    """Where a rank or a size comes into the module, and which one it is."""
    for node in context.index.all(cst.Call):
        assert isinstance(node, cst.Call)
        path = context.roles.path(node.func)
        if path in FUNCTIONS:
            if number := context.replicas.number(node):
                yield node, number
        elif path in COUNTS:
            yield node, context.replicas.meant(LOCAL_WORLD_SIZE)
        elif _by_reader(context, node) or (
            path == "builtins.int" and len(node.args) == 1 and _of_environment(context, node.args[0].value)
        ):
            yield node, context.replicas.number(node)
    for item in context.index.all(cst.Call, cst.Subscript):
        assert isinstance(item, (cst.Call, cst.Subscript))
        alone = not _converted(context, item) and not _written(context, item)
        if alone and _of_environment(context, item):
            yield item, context.replicas.number(item)
    for read in context.index.all(cst.Attribute):
        assert isinstance(read, cst.Attribute)
        if any(f.node is read and f.kind is Kind.NUMBER for f in context.roles.facts(read)):
            yield read, context.replicas.number(read)
    for sum_ in context.index.all(cst.BinaryOperation):
        assert isinstance(sum_, cst.BinaryOperation)
        own = {f.detail for f in context.roles.facts(sum_) if f.node is sum_}
        if own & (PLACES | SIZES):
            yield sum_, context.replicas.number(sum_)
    yield from _augmented(context)
    for node in context.replicas.counts.carried(context.index):
        if not _written(context, node):
            yield node, WORLD_SIZE
    yield from _options(context)


def _augmented(context: Context) -> Iterator[tuple[cst.AugAssign, str]]:
    """``args.rank += gpu``: from there on the rank, whatever it was before."""
    for node in context.index.all(cst.AugAssign):
        assert isinstance(node, cst.AugAssign)
        own = {f.detail for f in augmented(context.roles, node)}
        if own & (PLACES | SIZES):
            yield node, context.replicas.meant(own.pop())


def _by_reader(context: Context, node: cst.Call) -> bool:
    """Whether a function of the program gives back the number, by the name that it is handed."""
    ours = context.roles.is_a(node.func, Kind.FUNCTION)
    return ours and any(f.node is node and f.detail in PLACES | SIZES for f in context.roles.facts(node))


def _options(context: Context) -> Iterator[tuple[cst.BaseExpression, str]]:
    """Reads of ``args.local_rank``, which a launcher gave on the command line."""
    for node in context.index.attributed(OPTION):
        if is_option(context.roles, node) and not _written(context, node):
            yield node, LOCAL_RANK


def _of_environment(context: Context, node: cst.CSTNode) -> bool:
    if not isinstance(node, (cst.Call, cst.Subscript)):
        return False
    return any(f.kind is Kind.ENVIRONMENT and f.node is node for f in context.roles.facts(node))


def _converted(context: Context, node: cst.CSTNode) -> bool:
    """Whether ``int(...)`` around a variable's text is written anew as a whole."""
    parent = context.index.parent(node)
    call = context.index.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and context.roles.path(call.func) == "builtins.int"


def _written(context: Context, node: cst.CSTNode) -> bool:
    parent = context.index.parent(node)
    if isinstance(parent, (cst.Element, cst.Tuple, cst.List)):  # of ``a, b = ...``
        return _written(context, parent)
    if isinstance(parent, (cst.AnnAssign, cst.AugAssign)):
        return parent.target is node
    return isinstance(parent, (cst.AssignTarget, cst.Del))


def _is_number(context: Context, node: cst.CSTNode) -> bool:
    return not _of_environment(context, node)


def _spelling(context: Context, number: str) -> Spelling:
    target = context.target
    return {
        RANK: target.ordinal,
        LOCAL_RANK: target.local_ordinal,
        WORLD_SIZE: target.world_size,
        LOCAL_WORLD_SIZE: target.local_world_size,
    }[number]


def _early(context: Context, node: cst.CSTNode, number: str) -> None:
    if context.replicas.counts.only_counts(node):
        return  # the launch takes it away
    if context.replicas.style is Style.SPAWN and any(_of_environment(context, n) for n in walk(node)):
        return  # what the user tells the starting process, of hosts
    starter = context.target.starter
    advice = f"ask inside of the function that {starter} runs in each process"
    message = f"the {number} is asked for before {starter} starts the processes"
    context.plan.report(EARLY, node, message, advice)
