"""Guards: a question about CUDA gets the answer on XLA that it got on CUDA.

``x.is_cuda`` becomes ``x.is_xla``, ``device.type == "cuda"`` becomes ``device.type == "xla"``, and what
``x.type()`` is compared with names the type of a tensor of the XLA device.
Source: pytorch v2.9, ``Tensor.is_xla``; pytorch/xla v2.9.0, ``torch_xla.device().type``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.naming import is_word
from xla_transforms.roles import Kind
from xla_transforms.tree import dotted, method, receiver, same, string_value, walk

IS_CUDA = Rule(
    "XLA111",
    "is-cuda",
    "x.is_cuda becomes x.is_xla.",
    "is_cuda is False for XLA tensors, so the branch would flip silently.",
)
COMPARED = Rule(
    "XLA112",
    "device-compared",
    "A comparison with the name of the CUDA device becomes one with that of the XLA device.",
    'The type of an XLA device is "xla", so the branch would flip silently.',
)
UNKNOWN = Rule(
    "XLA113",
    "comparison-left",
    "A comparison with the name of the CUDA device stays, because what is compared is not known.",
    "If it is a device the branch flips on XLA.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (IS_CUDA, COMPARED, UNKNOWN)

_TYPES = "torch.cuda."
_SEARCHES = frozenset({"startswith", "find", "count", "index", "endswith"})


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    for node in list(context.index.all(cst.Attribute)):
        assert isinstance(node, cst.Attribute)
        if node.attr.value == "is_cuda" and context.plan.free(node):
            change = context.plan.change(
                IS_CUDA, node, "what was true of CUDA tensors is true of XLA tensors"
            )
            change.replace(node.attr, "is_xla")
    for comparison in list(context.index.all(cst.Comparison)):
        assert isinstance(comparison, cst.Comparison)
        _comparison(context, comparison)
    for call in list(context.index.all(cst.Call)):
        if isinstance(call, cst.Call) and method(call) in _SEARCHES and call.args:
            base = receiver(call)
            if base is not None and is_word(call.args[0].value) and not normalises(context, call):
                _rename(context, call.args[0].value, base)


def _tensor_types(context: Context, node: cst.Comparison) -> None:
    """``x.type() == "torch.cuda.HalfTensor"``: the name has the kind of device in it."""
    sides = [node.left, *(target.comparator for target in node.comparisons)]
    if not any(method(side) == "type" and isinstance(side, cst.Call) and not side.args for side in sides):
        return
    parts = [part for side in sides for part in getattr(side, "elements", ())]
    for word in (*sides, *(part.value for part in parts)):
        if (string_value(word) or "").startswith(_TYPES) and context.plan.free(word):
            text = context.index.source.code(word)
            change = context.plan.change(COMPARED, word, "the type of an XLA tensor has another name")
            change.replace(word, text.replace(_TYPES, f"torch.{context.target.device_type}.", 1))


def _comparison(context: Context, node: cst.Comparison) -> None:
    _tensor_types(context, node)
    if len(node.comparisons) != 1:
        return
    operator, right = node.comparisons[0].operator, node.comparisons[0].comparator
    if isinstance(operator, (cst.Equal, cst.NotEqual)):
        for word, other in ((right, node.left), (node.left, right)):
            shown = _shown_device(context, other)
            if is_word(word) and shown is not None:
                _type_of(context, node, shown, operator)
            elif is_word(word):
                _rename(context, word, other)
            elif _is_cuda_device(context, word):
                _type_of(context, node, other, operator)
    elif isinstance(operator, (cst.In, cst.NotIn)):
        if is_word(node.left):
            _rename(context, node.left, right)
        elif isinstance(right, (cst.Tuple, cst.List, cst.Set)):
            for element in right.elements:
                if is_word(element.value) and _shown_device(context, node.left) is not None:
                    _unsure(context, element.value, node.left)
                elif is_word(element.value):
                    _rename(context, element.value, node.left)


def _is_cuda_device(context: Context, node: cst.BaseExpression) -> bool:
    is_call = isinstance(node, cst.Call) and context.roles.path(node.func) == "torch.device"
    return is_call and context.roles.places(node) == {"cuda"}


def _shown_device(context: Context, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """``device`` of ``str(device)``, whose text has a number that the name of its type lacks."""
    if not isinstance(node, cst.Call) or context.roles.path(node.func) != "builtins.str":
        return None
    held = node.args[0].value if node.args else None
    return held if held is not None and context.roles.kinds(held) == {Kind.DEVICE} else None


def _type_of(
    context: Context, node: cst.Comparison, device: cst.BaseExpression, operator: cst.BaseCompOp
) -> None:
    """``device == torch.device("cuda")``: by type, since a device with and one without number differ."""
    if Kind.DEVICE not in context.roles.kinds(device):
        return
    change = context.plan.change(COMPARED, node, "the device is compared by its type")
    sign = "==" if isinstance(operator, cst.Equal) else "!="
    change.wrap(node, f'{{1}}.type {sign} "{context.target.device_type}"', device)


def _rename(context: Context, word: cst.BaseExpression, other: cst.BaseExpression) -> None:
    if not context.plan.free(word):
        return
    if not _is_device(context, other):
        if string_value(word) is not None and not context.roles.kinds(_told(context, other)):
            _unsure(context, word, other)
        return
    change = context.plan.change(COMPARED, word, "the XLA device is asked for by its own name")
    quote = "'" if context.index.source.code(word).startswith("'") else '"'
    change.replace(word, f"{quote}{context.target.device_type}{quote}")


def _unsure(context: Context, word: cst.BaseExpression, other: cst.BaseExpression) -> None:
    text, kind = context.index.source.code(other), context.target.device_type
    advice = f'compare its type with "{kind}" if it is the device'
    context.plan.report(UNKNOWN, word, f"whether {text} is this name of the device is not known", advice)


def _told(context: Context, node: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` of ``str(x)``, else the expression itself."""
    text = isinstance(node, cst.Call) and context.roles.path(node.func) == "builtins.str" and node.args
    return node.args[0].value if text and isinstance(node, cst.Call) else node


def _is_device(context: Context, node: cst.BaseExpression) -> bool:
    """Whether an expression is the device, its type, its name, or an option or string that holds it."""
    if (told := _told(context, node)) is not node:
        return _is_device(context, told)
    if isinstance(node, cst.Call) and isinstance(receiver(node), cst.BaseExpression):
        base = receiver(node)
        return method(node) in ("lower", "strip") and base is not None and _is_device(context, base)
    if isinstance(node, cst.Subscript) and method(node.value) == "split":
        base = receiver(node.value)
        return base is not None and _is_device(context, base)
    if isinstance(node, cst.Attribute) and node.attr.value == "type":
        return _is_device(context, node.value) or not context.roles.path(node).startswith("torch.")
    kinds = context.roles.kinds(node)
    if Kind.DEVICE in kinds or "cuda" in context.roles.places(node) or Kind.OPTION in kinds:
        return not kinds & {Kind.NUMBER, Kind.BOOLEAN}
    name = node.attr.value if isinstance(node, cst.Attribute) else dotted(node)
    return not kinds & {Kind.MODEL, Kind.TENSOR, Kind.MAPPING} and "device" in name.lower()


def normalises(context: Context, call: cst.Call) -> bool:
    """Whether ``if args.device.startswith("cuda"): args.device = "xla"`` stands around the question."""
    base = receiver(call)
    guard = next((a for a in context.index.ancestors(call) if isinstance(a, cst.If)), None)
    if guard is None or not context.index.within(call, guard.test):
        return False
    for node in walk(guard.body):
        if isinstance(node, cst.Assign) and same(node.targets[0].target, base):
            return string_value(node.value) == context.target.device_type
    return False
