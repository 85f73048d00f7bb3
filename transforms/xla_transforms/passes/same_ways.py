"""A choice both ways of which have become the same device is none: ``cuda:0`` or ``cuda`` by an option.

Source: pytorch/xla v2.9.0, ``torch_xla.device``: a process has one XLA device, whatever its number.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.branches import Branches
from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.roles import Kind
from xla_transforms.tree import same, walk

SAME = Rule(
    "XLA116",
    "same-device-either-way",
    "A choice between GPUs of a process goes where both ways are its XLA device.",
    "A process has one XLA device (pytorch/xla v2.9.0): both ways would read the same.",
)
RULES = (SAME,)

_KEPT = "\0"

_PURE = (
    cst.Name, cst.Attribute, cst.Comparison, cst.ComparisonTarget, cst.BooleanOperation, cst.UnaryOperation,
    cst.BaseNumber, cst.SimpleString, cst.BaseCompOp, cst.BaseBooleanOp, cst.BaseUnaryOp,
    cst.BaseParenthesizableWhitespace, cst.LeftParen, cst.RightParen, cst.Dot, cst.Newline,
)  # fmt: skip


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    for choice in context.index.all(cst.IfExp):
        if isinstance(choice, cst.IfExp) and _alike(context, choice, choice.body, choice.orelse):
            change = context.plan.change(SAME, choice, "both ways are the XLA device")
            change.replace(choice, "{0}", choice.body)
    for guard in context.index.all(cst.If):
        if isinstance(guard, cst.If) and isinstance(guard.orelse, cst.Else) and not _is_elif(context, guard):
            one, other = _assigned(guard.body), _assigned(guard.orelse.body)
            if one and other and same(one[0], other[0]) and _alike(context, guard, one[1], other[1]):
                change = context.plan.change(SAME, guard, "both ways are the XLA device")
                Branches(context).keep_block(change, guard, guard.body)


def _alike(
    context: Context, choice: cst.If | cst.IfExp, one: cst.BaseExpression, other: cst.BaseExpression
) -> bool:
    """Whether both ways are written anew alike, and nothing is lost with the question."""
    if context.plan.taken(choice) or not _plain(context, choice.test):
        return False
    first = _written(context, one)
    return first is not None and first == _written(context, other)


def _written(context: Context, node: cst.BaseExpression) -> str | None:
    """The new text of an expression of which nothing is kept."""
    if not context.plan.claims(node):
        return None
    places = {context.plan.offsets(node), context.plan.bracketed(node)}
    sites = [site for site in context.plan.sites() if (site.start, site.end) in places]
    texts = [site.write(lambda part: _KEPT) for site in sites]
    return texts[0] if len(texts) == 1 and _KEPT not in texts[0] else None


def _plain(context: Context, test: cst.BaseExpression) -> bool:
    """Whether asking does nothing: a condition of names, options of the command line and constants."""
    attributes = [n for n in walk(test) if isinstance(n, cst.Attribute)]
    options = all(Kind.ARGUMENTS in context.roles.kinds(n.value) for n in attributes)
    return options and all(isinstance(n, _PURE) for n in walk(test))


def _assigned(block: cst.BaseSuite) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Target and value of the one assignment that is all of a block."""
    lines = block.body if isinstance(block, cst.IndentedBlock) else ()
    line = lines[0] if len(lines) == 1 else None
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return None
    return small.targets[0].target, small.value


def _is_elif(context: Context, guard: cst.If) -> bool:
    above = context.index.parent(guard)
    return isinstance(above, cst.If) and above.orelse is guard
