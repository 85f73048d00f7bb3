"""Questions and edits that several passes share: bare calls, arguments that go, with items that go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from xla_transforms.branches import Branches
from xla_transforms.context import Context
from xla_transforms.plan import Planned
from xla_transforms.roles.catalog import short
from xla_transforms.tree import same, walk


def migrating(context: Context) -> bool:
    """Whether CUDA's utilities in this module are to be migrated at all."""
    return context.uses_cuda


def feeds_device(context: Context) -> bool:
    """Whether batches come to an XLA device that did not before: by the program, or by a framework."""
    frameworks = context.frameworks
    ours = context.uses_cuda or frameworks.trains or frameworks.lightning
    return bool(ours and (frameworks.prepares or not context.already_xla))


def path_of(context: Context, node: cst.CSTNode | None) -> str:
    """The dotted path that an expression names, under ``torch.cuda`` in its short form."""
    return short(context.roles.path(node))


def live_calls(context: Context) -> Iterator[tuple[cst.Call, str]]:
    """Every call that was reached on CUDA and that no pass writes yet, with the path of what it calls."""
    for call, path in context.reached:
        if context.plan.free(call):
            yield call, path


def bare(context: Context, call: cst.CSTNode) -> cst.Expr | None:
    """The statement that is nothing but this call."""
    parent = context.index.parent(call)
    return parent if isinstance(parent, cst.Expr) else None


def write_wait(context: Context, change: Planned, call: cst.Call) -> None:
    """Write the barrier that waits in the place of a call, in as many statements as the target needs."""
    first, *rest = change.spell(context.target.wait).split("\n")
    statement = bare(context, call)
    line = context.index.parent(statement) if statement is not None else None
    if not rest:
        change.replace(call, first)
    elif isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        ahead = context.index.source.newline + context.plan.indentation(line)
        change.replace(call, ahead.join((first, *rest)))
    else:
        change.replace(call, f"({', '.join((first, *rest))})")


def write_part(
    context: Context, change: Planned, whole: cst.BaseExpression, part: cst.BaseExpression
) -> None:
    """Write a part in the place of the whole; ``model = model``, which would come of it, goes."""
    assign = context.index.parent(whole)
    if isinstance(assign, cst.Assign) and isinstance(part, cst.Name) and same(sole_target(assign), part):
        change.remove(assign)
    else:
        atom = isinstance(part, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
        change.replace(whole, "{0}", part, brackets=atom)


def sole_target(assign: cst.CSTNode | None) -> cst.BaseExpression | None:
    """``x`` for the statement ``x = ...`` with one target, be it annotated or not."""
    if isinstance(assign, cst.AnnAssign):
        return assign.target
    if isinstance(assign, cst.Assign) and len(assign.targets) == 1:
        return assign.targets[0].target
    return None


def reads_of(context: Context, call: cst.Call) -> list[cst.Attribute]:
    """Where the attributes of what a call gives are read, be it through a variable of its own."""
    outer = context.index.parent(call)
    if isinstance(outer, cst.Attribute):
        return [outer]
    target = sole_target(outer)
    if not isinstance(target, cst.Name):
        return []
    names = [n for n in context.index.named(target.value) if n is not target]
    ours = [n for n in names if call in {b.value for b in context.roles.bindings(n)}]
    parents = [context.index.parent(n) for n in ours]
    found = [p for p in parents if isinstance(p, cst.Attribute)]
    only = all(b.value is call for n in ours for b in context.roles.bindings(n))
    return found if only and len(found) == len(parents) else []


_ACTS = {cst.Call, cst.Await, cst.NamedExpr, cst.Yield}


def has_call(node: cst.CSTNode) -> bool:
    """Whether evaluating an expression a second time could do or give something else."""
    return any(type(n) in _ACTS for n in walk(node))


def in_double_quotes(context: Context, node: cst.CSTNode) -> bool:
    """Whether a node stands in an f-string in which double quotes would end the string."""
    around = (a for a in context.index.ancestors(node) if isinstance(a, cst.FormattedString))
    return any('"' in string.start for string in around)


def define(context: Context, change: Planned, lines: Sequence[str]) -> None:
    """Write a function or class of the script's own below its imports."""
    source, offset = context.index.source, context.plan.imports.end()
    above = [s for s in source.module.body if source.line_end(source.offsets(s)[1]) == offset]
    if above:
        below = source.text[offset:].splitlines()
        blank = next((number for number, line in enumerate(below) if line.strip()), 2)
        change.after(above[0], "", "", *lines, *[""] * (2 - blank))
    else:
        change.before(source.module.body[0], *lines, "", "")


def leave_with(context: Context, change: Planned, *gone: cst.WithItem) -> None:
    """Take items out of their ``with`` statement, the statement itself where no other is left.

    Where the block cannot be moved to the left, a context that does nothing takes the last one's place.
    """
    statement = context.index.parent(gone[0])
    assert isinstance(statement, cst.With)
    change.units |= frozenset(gone)
    others = [item for item in statement.items if item not in gone]
    stays = not all(map(context.plan.claims, others))
    if not stays and Branches(context).keep_block(change, statement, statement.body):
        change.needs |= frozenset(others)
        return
    leaving = gone if stays else gone[:-1]
    if not stays:
        change.replace(gone[-1].item, f"{change.use('contextlib')}.nullcontext()")
    change.drop(statement.items, leaving)
