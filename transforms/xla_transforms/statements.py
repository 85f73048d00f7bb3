"""Questions and edits that several passes share: bare calls, arguments that go, with items that go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from xla_transforms.branches import Branches
from xla_transforms.context import Context
from xla_transforms.placing import several_devices
from xla_transforms.plan import Planned

# Submodules of torch.cuda whose functions torch.cuda itself gives too.
_INNER = ("torch.cuda.memory.", "torch.cuda.random.", "torch.cuda.streams.", "torch.cuda.graphs.")


def migrating(context: Context) -> bool:
    """Whether CUDA's utilities in this module are to be migrated at all."""
    return context.uses_cuda and not several_devices(context)


def path_of(context: Context, node: cst.CSTNode | None) -> str:
    """The dotted path that an expression names, under ``torch.cuda`` in its short form."""
    path = context.roles.path(node)
    for inner in _INNER:
        if path.startswith(inner):
            return f"torch.cuda.{path.removeprefix(inner)}"
    return path


def live_calls(context: Context) -> Iterator[tuple[cst.Call, str]]:
    """Every call that was reached on CUDA and that no pass writes yet, with the path of what it calls."""
    for call in list(context.index.all(cst.Call)):
        assert isinstance(call, cst.Call)
        if not context.plan.taken(call) and not context.roles.dead(call):
            yield call, path_of(context, call.func)


def bare(context: Context, call: cst.CSTNode) -> cst.Expr | None:
    """The statement that is nothing but this call."""
    parent = context.index.parent(call)
    return parent if isinstance(parent, cst.Expr) else None


def sole_target(assign: cst.CSTNode | None) -> cst.BaseExpression | None:
    """``x`` for the statement ``x = ...`` with one target, be it annotated or not."""
    if isinstance(assign, cst.AnnAssign):
        return assign.target
    if isinstance(assign, cst.Assign) and len(assign.targets) == 1:
        return assign.targets[0].target
    return None


def has_call(node: cst.CSTNode, context: Context) -> bool:
    """Whether evaluating an expression a second time could do or give something else."""
    kinds = (cst.Call, cst.Await, cst.NamedExpr, cst.Yield)
    return any(context.index.within(n, node) for n in context.index.all(*kinds))


def drop_arguments(
    context: Context, change: Planned, call: cst.Call, gone: Sequence[cst.Arg]
) -> bool:
    """Take arguments out of a call; ``False`` (and nothing done) where a comment would go with them."""
    source, args = context.index.source, list(call.args)
    kept = [a for a in args if a not in gone]
    if not kept:
        start, end = source.offsets(args[0])[0], source.offsets(args[-1])[1]
        pieces = [(start, _past_comma(source.text, end))]
    else:
        pieces = list(_pieces(context, args, gone))
    if any("#" in source.text[start:end] for start, end in pieces):
        return False
    for start, end in pieces:
        change.cut(start, end)
    return True


def _pieces(
    context: Context, args: list[cst.Arg], gone: Sequence[cst.Arg]
) -> Iterator[tuple[int, int]]:
    """The texts of arguments that go, each with one comma; runs of them in one piece."""
    source, position = context.index.source, 0
    while position < len(args):
        if args[position] not in gone:
            position += 1
            continue
        first = position
        while position < len(args) and args[position] in gone:
            position += 1
        start, end = source.offsets(args[first])[0], source.offsets(args[position - 1])[1]
        line, after = source.line_start(start), source.line_end(end)
        alone = not source.text[line:start].strip() and source.text[end:after].strip() in ("", ",")
        if alone:
            yield line, after
        elif position < len(args):
            yield start, source.offsets(args[position])[0]
        else:
            yield source.offsets(args[first - 1])[1], end


def _past_comma(text: str, end: int) -> int:
    rest = text[end:].lstrip()
    return len(text) - len(rest) + 1 if rest.startswith(",") else end


def leave_with(context: Context, change: Planned, item: cst.WithItem) -> bool:
    """Take one item out of its ``with`` statement, the statement itself where it was the only one.

    ``False`` where the block holds a string over several lines, which cannot be moved to the left.
    """
    statement = context.index.parent(item)
    assert isinstance(statement, cst.With)
    if len(statement.items) == 1:
        return Branches(context).keep_block(change, statement, statement.body)
    offsets, items = context.index.source.offsets, list(statement.items)
    position = items.index(item)
    if position + 1 < len(items):
        change.cut(offsets(item)[0], offsets(items[position + 1])[0])
    else:
        change.cut(offsets(items[position - 1].item)[1], offsets(item.item)[1])
    return True
