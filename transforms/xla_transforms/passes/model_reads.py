"""Values of device tensors that a model's ``forward`` needs on the host: to decide, to count loops, to log.

Nothing is rewritten: what is computed instead is a decision about the model. Reads of training loops, and of
what they call besides models, are ``host_reads.py``'s.
Source: pytorch/xla, "Troubleshooting" and "Recompilation"; pytorch/xla#1368.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.loops.forwards import Forwards, surely_read
from xla_transforms.statements import migrating
from xla_transforms.tree import walk

IN_MODEL = Rule(
    "XLA705",
    "host-read-in-model",
    "A model needs the value of a device tensor on the host in every forward pass.",
    "What the value depends on is executed and fetched first; each outcome of a condition, and each number "
    "of iterations, is another graph to compile (pytorch/xla troubleshooting, pytorch/xla#1368).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (IN_MODEL,)

_DECIDES = "compute both and choose on the device (torch.where), or decide by something that the host knows"
_COUNTS = "loop over a constant number, and mask what is beyond the value (torch.where)"
_READS = "keep it a tensor; what is only looked at can be read every few steps, behind the barrier"


def run(context: Context) -> None:
    if not migrating(context) or context.already_xla:
        return
    forwards = Forwards(context.roles, context.loops.effects)
    for function, owner in forwards.computing(context.index).items():
        found = [read for line in _training(context, function) for read in _reads(context, line)]
        if found and forwards.trained(owner):
            for node, verb, advice in found:
                _report(context, node, f"{verb} {{}} in every forward pass of {owner.name.value}", advice)


def _training(context: Context, function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
    """The statements of a function that training runs, too."""
    for line in walk(function.body, into_functions=False):
        statement = isinstance(line, (cst.BaseStatement, cst.BaseSmallStatement))
        if statement and not context.roles.dead(line) and not _in_evaluation(context, line, function):
            yield line


def _in_evaluation(context: Context, line: cst.CSTNode, function: cst.FunctionDef) -> bool:
    """Whether a statement stands under ``if not self.training``, or in the other branch of its opposite."""
    below = line
    for parent in context.index.ancestors(line):
        if parent is function:
            return False
        if isinstance(parent, cst.If):
            test, negated = parent.test, False
            if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
                test, negated = test.expression, True
            asks = isinstance(test, cst.Attribute) and test.attr.value == "training"
            if asks and below is not test and (below is parent.body) is negated:
                return True
        below = parent
    return False


def _reads(context: Context, line: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, str, str]]:
    """What a statement reads of the device, what for, and what to write instead."""
    reads = context.loops.reads
    if isinstance(line, (cst.If, cst.While, cst.Assert)):
        test = reads.decides(line)
        if test is not None and surely_read(reads, test):
            yield test, "Python decides by", _DECIDES
    elif isinstance(line, cst.For):
        found = (read for read in reads.within(line.iter) if surely_read(reads, read))
        yield from ((read, "a loop counts by", _COUNTS) for read in found)
    elif isinstance(line, cst.SimpleStatementLine):
        for read in reads.within(line):
            if isinstance(read, cst.IfExp) and surely_read(reads, read.test):
                yield read.test, "Python decides by", _DECIDES
            elif isinstance(read, (cst.BooleanOperation, cst.UnaryOperation)) and surely_read(reads, read):
                yield read, "Python decides by", _DECIDES
            elif isinstance(read, (cst.Call, cst.FormattedString)) and surely_read(reads, read):
                yield read, "the host reads", _READS


def _report(context: Context, node: cst.CSTNode, message: str, advice: str) -> None:
    text = " ".join(context.index.source.code(node).split())
    text = text if len(text) <= 60 else text[:57] + "..."
    context.plan.report(IN_MODEL, node, message.format(text), advice)
