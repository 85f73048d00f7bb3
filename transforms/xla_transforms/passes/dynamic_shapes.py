"""Shapes that depend on data or on a Python value that changes: each new shape is a new compilation.

Nothing is rewritten: a fixed shape is a decision about the model. Each finding names the construct and a form
with a constant shape.
Source: pytorch/xla docs, "Recompilation" and "Troubleshooting"; pytorch/xla#5038, #6413; counted on 2.9.
"""

from __future__ import annotations

import re

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.loops.hot import HotPath
from xla_transforms.loops.reads import Reads
from xla_transforms.loops.sums import Sums
from xla_transforms.tree import argument, method, receiver, value_of

BOOLEAN = Rule(
    "XLA902",
    "boolean-index",
    "A tensor is read or written through a boolean mask in every step.",
    "How many elements a mask selects is known only after a hidden nonzero; every new number compiles "
    "(pytorch/xla troubleshooting, pytorch/xla#5038).",
    Severity.WARNING,
    Safety.DISPLAY,
)
DEPENDENT = Rule(
    "XLA903",
    "data-dependent-shape",
    "An operation gives a shape that depends on the data.",
    "The host must wait for the data to know the shape, and every new shape compiles (pytorch/xla#6413).",
    Severity.WARNING,
    Safety.DISPLAY,
)
CHANGING = Rule(
    "XLA904",
    "changing-python-value",
    "A Python number that changes from step to step becomes part of the graph.",
    "Slice bounds, indices, sizes, k of topk and exponents are constants of the graph: each value compiles.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (BOOLEAN, DEPENDENT, CHANGING)

_MASK = re.compile(r"mask|keep|valid", re.IGNORECASE)
_DEPENDENT = frozenset({"nonzero", "masked_select", "unique", "unique_consecutive", "bincount", "argwhere"})
_SIZED = {"topk": 0, "narrow": 1, "roll": 0, "split": 0, "chunk": 0, "pow": 0, "unfold": 1, "repeat": 0}
_MASK_READ = (
    "keep the shape: a weight of zero, torch.where, or ignore_index; divide by the number of kept elements"
)
_MASK_WRITE = "use masked_fill or torch.where, which keep the shape"
_FIX = "keep it constant over the steps, or make it a tensor (index_select, gather, torch.where)"


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    hot, reads = Changes(context), context.loops.reads
    sums = Sums(context.roles, reads)
    for node in hot.nodes(cst.Subscript):
        assert isinstance(node, cst.Subscript)
        _subscript(context, hot, reads, sums, node)
    for node in hot.nodes(cst.Call):
        assert isinstance(node, cst.Call)
        _call(context, hot, reads, node)
    for node in hot.nodes(cst.BinaryOperation):
        assert isinstance(node, cst.BinaryOperation)
        power = isinstance(node.operator, cst.Power) and reads.on_device(node.left)
        if power and not reads.on_device(node.right):
            hot.note(node, node.right)
    hot.report()


class Changes(HotPath):
    """The hot path, and what changes on it: told once for what changes in one function."""

    def __init__(self, context: Context) -> None:
        super().__init__(context.loops)
        self.context = context
        self._places: dict[tuple[cst.CSTNode | None, tuple[str, ...]], list[cst.CSTNode]] = {}

    def note(self, node: cst.CSTNode, *values: cst.BaseExpression) -> None:
        """Note that Python numbers become constants of the graph at a node."""
        names = dict.fromkeys(found.value for value in values if (found := self.changes(value)) is not None)
        if names:
            key = self.context.index.function_of(node), tuple(names)
            self._places.setdefault(key, []).append(node)

    def report(self) -> None:
        source = self.context.index.source
        for (_, names), nodes in self._places.items():
            nodes = sorted(nodes, key=source.offsets)
            lines = dict.fromkeys(str(source.span(node).line) for node in nodes)
            also = f" (so in lines {', '.join(lines)})" if len(lines) > 1 else ""
            message = f"{source.code(nodes[0])}: {', '.join(names)} changes from step to step"
            message += f", and each value is a new compilation{also}"
            self.context.plan.report(CHANGING, nodes[0], message, _FIX)


def _subscript(context: Context, hot: Changes, reads: Reads, sums: Sums, node: cst.Subscript) -> None:
    if not reads.on_device(node.value):
        return
    numbers: list[cst.BaseExpression] = []
    for element in node.slice:
        if isinstance(element.slice, cst.Slice):
            numbers += [b for b in (element.slice.lower, element.slice.upper) if b is not None]
        elif isinstance(element.slice, cst.Index) and _is_mask(reads, sums, element.slice.value):
            _mask(context, node, sure=not _by_name(reads, sums, element.slice.value))
        elif isinstance(element.slice, cst.Index):
            numbers.append(element.slice.value)
    hot.note(node, *(n for n in numbers if not reads.on_device(n) and not _is_array(context, n)))


def _is_array(context: Context, index: cst.BaseExpression) -> bool:
    """Whether an index is a piece of an array, whose numbers are no constants: ``x[order[start:end]]``."""
    bindings = context.roles.bindings(index) if isinstance(index, cst.Name) else []
    values = [b.value for b in bindings if not b.path] if bindings else [index]
    return len(values) == max(len(bindings), 1) and all(isinstance(v, cst.Subscript) and any(
        isinstance(e.slice, cst.Slice) for e in v.slice) for v in values)


def _is_mask(reads: Reads, sums: Sums, index: cst.BaseExpression) -> bool:
    if isinstance(index, cst.UnaryOperation) and isinstance(index.operator, cst.BitInvert):
        return True
    if not reads.on_device(index):
        return False
    if isinstance(index, cst.BinaryOperation):
        return isinstance(index.operator, (cst.BitAnd, cst.BitOr))
    return sums.dtype_of(index) == "bool" or _by_name(reads, sums, index)


def _by_name(reads: Reads, sums: Sums, index: cst.BaseExpression) -> bool:
    """Whether nothing but the name of an index says that it is a mask."""
    named = isinstance(index, cst.Name) and bool(_MASK.search(index.value))
    return named and reads.on_device(index) and not sums.dtype_of(index)


def _mask(context: Context, node: cst.Subscript, *, sure: bool) -> None:
    written = isinstance(context.index.parent(node), (cst.AssignTarget, cst.AugAssign))
    code = context.index.source.code(node)
    verb = "writes" if written else "selects"
    through = "a boolean mask:" if sure else "what is named a mask: if it is boolean,"
    message = f"{code} {verb} through {through} a new number of hits is a new compilation"
    context.plan.report(BOOLEAN, node, message, _MASK_WRITE if written else _MASK_READ)


def _call(context: Context, hot: Changes, reads: Reads, call: cst.Call) -> None:
    path, name = context.roles.path(call.func), method(call)
    free = path.startswith("torch.")
    name = path.rpartition(".")[2] if free else name
    tensor = call.args[0].value if free and call.args else receiver(call)
    if tensor is None or path.startswith("torch.nn.utils"):
        return
    if name == "arange" and free:
        hot.note(call, *(a.value for a in call.args if a.keyword is None))
        return
    if not reads.on_device(tensor) and not (name == "where" and len(call.args) == 1):
        return
    if _depends(reads, call, name, free):
        code = context.index.source.code(call)
        message = f"{code} has a shape that depends on the data"
        context.plan.report(
            DEPENDENT, call, message, "give it a constant shape: torch.where, a fixed size, num_classes="
        )
    elif name in _SIZED:
        position = _SIZED[name] + (1 if free else 0)
        hot.note(call, *(a.value for a in call.args[position : position + 2]))


def _depends(reads: Reads, call: cst.Call, name: str, free: bool) -> bool:
    if name == "one_hot":
        return argument(call, "num_classes", 1) is None
    if name == "repeat_interleave":
        repeats = value_of(call, "repeats", 1 if free else 0)
        return reads.on_device(repeats) and argument(call, "output_size") is None
    if name == "where":
        return free and len(call.args) == 1 and reads.on_device(call.args[0].value)
    return name in _DEPENDENT
