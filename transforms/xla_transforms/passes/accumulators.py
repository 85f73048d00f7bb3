"""Running sums stay on the device: ``running += loss.item()`` becomes ``running += loss.detach()``.

Reading a tensor in the step loop costs an execution of its own and makes the host wait. A sum is read once,
behind its loop, where it becomes the number that it was before; what follows sees no difference.
Source: pytorch/xla, "PyTorch on XLA devices", the recompilation guide; pytorch/xla#2231, #2425 (bfloat16).
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.loops.deferral import Deferral
from xla_transforms.loops.sums import Sum
from xla_transforms.plan import Planned
from xla_transforms.tree import method, walk

SUM = Rule(
    "XLA711",
    "sum-on-device",
    "A running sum of values adds tensors on the device and is read once, behind the loop.",
    "item() in every step runs the step in two executions and makes the host wait (pytorch/xla#2231).",
)
VALUE = Rule(
    "XLA712",
    "value-read-later",
    "A value that is only shown or summed later stays a tensor until then.",
    "item() in the middle of a step cuts its graph in two (pytorch/xla recompilation guide).",
)
ADDED = Rule(
    "XLA715",
    "sum-in-tensor",
    "What is added to a tensor of the device is added as the tensor that it is.",
    "item() before it runs the step in two executions and makes the host wait (pytorch/xla#2231).",
)
RULES = (SUM, VALUE, ADDED)

_GRADLESS = ("torch.no_grad", "torch.inference_mode")
_LOW = frozenset({"half", "bfloat16", "float16"})


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    for deferral in context.deferrals:
        with context.plan.together(deferral, needs=[deferral.loop]):
            _defer(context, deferral)


def _defer(context: Context, deferral: Deferral) -> None:
    for total in deferral.sums.values():
        _sum(context, deferral, total)
    for unit in deferral.deferred.values():
        change = context.plan.change(VALUE, unit.statement, "the value is read where it is shown")
        if deferral.tensor_of(deferral.value_of(unit)) is not None:
            _keep_tensor(context, change, deferral, deferral.value_of(unit), widen=False)
    for unit in deferral.left:
        for read in deferral.into_tensor(unit.statement):
            change = context.plan.change(ADDED, read, "the sum is a tensor of the device already")
            _keep_tensor(context, change, deferral, read, widen=False)
    for function in deferral.functions:
        _give_back_tensor(context, deferral, function)


def _sum(context: Context, deferral: Deferral, total: Sum) -> None:
    line = total.units[0].statement
    change = context.plan.change(SUM, line, "the sum stays on the device until the loop is over")
    for leaf in total.leaves:
        if deferral.value_function(leaf) is None:
            widen = not total.counts and not total.listed and _computes_low(context)
            _keep_tensor(context, change, deferral, leaf, widen=widen)
    if deferral.captured(total):
        for unit in total.units:
            _not_in_place(context, change, unit.statement)
    change.after(deferral.loop.node, deferral.restored(total.name))


def _give_back_tensor(context: Context, deferral: Deferral, function: cst.FunctionDef) -> None:
    for node in walk(function.body, into_functions=False):
        if isinstance(node, cst.Return) and isinstance(node.value, cst.Call):
            change = context.plan.change(
                VALUE, node, "the tensor is given back; its sum is read behind the loop"
            )
            _keep_tensor(context, change, deferral, node.value, widen=_computes_low(context))


def _keep_tensor(
    context: Context, change: Planned, deferral: Deferral, read: cst.Call, *, widen: bool
) -> None:
    """Write the tensor itself for ``x.item()``: without its graph, in float32 where it may be narrower."""
    tensor = deferral.tensor_of(read)
    assert tensor is not None
    atom = isinstance(tensor, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or bool(
        getattr(tensor, "lpar", ())
    )
    text = "{0}" if atom else "({0})"
    if not _gradless(context, read, tensor, deferral):
        text += ".detach()"
    if widen and method(tensor) != "float":
        text += ".float()"
    change.replace(read, text, tensor)


def _gradless(context: Context, read: cst.Call, tensor: cst.BaseExpression, deferral: Deferral) -> bool:
    """Whether no gradient hangs on a tensor: computed without gradients, or a count."""
    if deferral.dtype_of(tensor) in ("int", "bool"):
        return True
    if isinstance(tensor, cst.Attribute) and tensor.attr.value == "data":
        return True
    for outer in context.index.ancestors(read):
        if isinstance(outer, cst.With):
            if any(_named_gradless(context, item.item) for item in outer.items):
                return True
        elif isinstance(outer, cst.FunctionDef):
            return any(_named_gradless(context, d.decorator) for d in outer.decorators)
    return False


def _named_gradless(context: Context, node: cst.BaseExpression) -> bool:
    return context.roles.path(node.func if isinstance(node, cst.Call) else node) in _GRADLESS


def _computes_low(context: Context) -> bool:
    """Whether the program computes in half precision anywhere: a bfloat16 sum of 400 ones is 256."""
    names = (n for index in context.program.modules.values() for n in index.all(cst.Attribute))
    return context.uses_amp or any(n.attr.value in _LOW for n in names if isinstance(n, cst.Attribute))


def _not_in_place(context: Context, change: Planned, line: cst.CSTNode) -> None:
    """``n = n + x`` for ``n += x``: a closure may still hold the old sum."""
    for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
        if isinstance(small, cst.AugAssign):
            sign = "-" if isinstance(small.operator, cst.SubtractAssign) else "+"
            loose = any(isinstance(n, cst.BinaryOperation) for n in walk(small.value))
            text = f"{{0}} = {{0}} {sign} ({{1}})" if loose and sign == "-" else f"{{0}} = {{0}} {sign} {{1}}"
            change.replace(small, text, small.target, small.value)
