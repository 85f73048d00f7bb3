"""How a loop uses what its loader gives it: may the batches arrive on the device already?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from xla_transforms.loops.moving import InPlace, asks_for_tensor, moved_key, moved_loop
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import arriving_parameter
from xla_transforms.roles.types import cast_to
from xla_transforms.scopes import Binding, How, parameters
from xla_transforms.tree import COMPREHENSIONS, method, receiver, same, string_value, value_of
from xla_transforms.wrappers import wrapped_models

_SHAPE = frozenset({"size", "dim", "numel", "nelement", "ndimension", "stride", "items", "keys", "values"})
_SHAPE_ATTRIBUTES = frozenset({"shape", "ndim", "dtype", "is_cuda", "device", "requires_grad"})
# Ways to look at a tensor that stay on the same device; fine where a transfer follows.
_VIEWS = frozenset(
    {
        "view", "reshape", "squeeze", "unsqueeze", "flatten", "permute", "transpose", "contiguous", "float",
        "long", "int", "double", "half", "bool", "t", "detach", "clone", "pin_memory", "type", "byte",
        "requires_grad_", "expand", "repeat", "view_as", "bfloat16",
    }
)  # fmt: skip
_HARMLESS_CALLS = frozenset(
    {"builtins.len", "builtins.isinstance", "builtins.type", "torch.is_tensor", "builtins.hasattr"}
)
_MAX_DEPTH = 6


@dataclass
class BatchUse:
    """The transfers of a batch, its casts to a type of the CPU, and the first use that needs it on the host.

    ``in_place`` are the statements that move what a batch holds within the batch itself.
    """

    transfers: list[cst.Call] = field(default_factory=list)
    casts: list[cst.Call] = field(default_factory=list)
    in_place: list[InPlace] = field(default_factory=list)
    blocker: cst.CSTNode | None = None


def use_of_batches(roles: Roles, loop: cst.For) -> BatchUse:
    """Follow everything that a loop's target binds to where it is used."""
    use = BatchUse()
    index = roles.index(loop)
    scope = index.scope_of(loop.body)
    for name, bindings in scope.bindings.items():
        for binding in bindings:
            if binding.statement is loop and not _is_counter(roles, binding):
                _follow(roles, binding, name, use, 0)
    return use


def _is_counter(roles: Roles, binding: Binding) -> bool:
    if binding.value is None:
        return False
    facts = roles.element(binding.value, binding.path)
    return bool(facts) and all(f.kind is Kind.NUMBER for f in facts)


def _follow(roles: Roles, binding: Binding, name: str, use: BatchUse, depth: int) -> None:
    if depth > _MAX_DEPTH:
        use.blocker = use.blocker or binding.node
        return
    found = [node for node in _reads(roles, binding, name) if not roles.dead(node)]
    moves = _in_place(roles, found)
    for move in moves:
        if move.transfer not in use.transfers:
            use.transfers.append(move.transfer)
            use.in_place.append(move)
    for node in found:
        if not any(_moved_by(roles, move, node) for move in moves):
            _judge(roles, node, use, depth)


def _in_place(roles: Roles, reads: list[cst.Name]) -> list[InPlace]:
    """The statements that move a batch, or what it holds at a key, within the batch."""
    found: dict[cst.CSTNode, InPlace] = {}
    for node in reads:
        around = (a for a in roles.index(node).ancestors(node) if isinstance(a, cst.BaseStatement))
        for statement in (s for s, _ in zip(around, range(3), strict=False)):
            move = moved_loop(roles, statement, is_transfer) or moved_key(roles, statement, is_transfer)
            if move is not None and same(move.batch, node):
                found[statement] = move
    whole = [m.statement for m in found.values() if m.key is None]
    inner = {s for w in whole for s in _below(roles, w, found)}
    return [move for statement, move in found.items() if statement not in inner]


def _below(roles: Roles, outer: cst.CSTNode, found: dict[cst.CSTNode, InPlace]) -> list[cst.CSTNode]:
    return [s for s in found if s is not outer and roles.index(s).within(s, outer)]


def _moved_by(roles: Roles, move: InPlace, node: cst.Name) -> bool:
    """Whether a read belongs to a move within the batch, or gets what it moved."""
    index, parent = roles.index(node), roles.index(node).parent(node)
    if index.within(node, move.statement):
        return True
    if move.key is not None and not same(parent, move.key):
        return False
    block = index.parent(move.statement)
    later = index.source.offsets(node)[0] > index.source.offsets(move.statement)[0]
    return later and block is not None and index.within(node, block)


def _reads(roles: Roles, binding: Binding, name: str) -> Iterator[cst.Name]:
    index = roles.index(binding.node)
    owner = index.scope_of(binding.node).owner(name)
    targets = {b.node for b in owner.bindings[name]} if owner else set()
    for node in index.named_of(owner, name):
        if node not in targets and binding in roles.bindings(node):
            yield node


def _judge(roles: Roles, node: cst.BaseExpression, use: BatchUse, depth: int) -> None:
    """Decide about one read of (a part of) the batch; sets the blocker where it must be on the host."""
    index = roles.index(node)
    parent = index.parent(node)
    if isinstance(parent, cst.Attribute) and parent.value is node:
        _judge_attribute(roles, node, parent, use, depth)
    elif isinstance(parent, cst.Subscript) and parent.value is node:
        _judge(roles, parent, use, depth)
    elif isinstance(parent, cst.Arg):
        _judge_argument(roles, node, parent, use, depth)
    elif isinstance(parent, (cst.Element, cst.AssignTarget)) and _target_of(roles, parent):
        return
    elif isinstance(parent, cst.Element):
        _judge_element(roles, parent, use, depth)
    elif isinstance(parent, cst.Assign) and parent.value is node:
        _follow_targets(roles, parent, use, depth)
    elif isinstance(parent, cst.CompFor) and parent.iter is node:
        _follow_comprehension(roles, parent, use, depth)
    elif isinstance(parent, cst.For) and parent.iter is node:
        _follow_targets(roles, parent, use, depth)
    elif not isinstance(parent, (cst.Del, cst.Expr)) and not _harmless(roles, node, parent):
        _block(use, node)


def _harmless(roles: Roles, node: cst.BaseExpression, parent: cst.CSTNode | None) -> bool:
    """Whether a read is a key of what is gone through, or stands where what is no tensor stays as it is."""
    if isinstance(parent, cst.Index):
        element = roles.index(node).parent(parent)
        whole = roles.index(node).parent(element) if element is not None else None
        found = roles.bindings(node) if isinstance(node, cst.Name) else []
        walked = [b.value for b in found if b.how is How.ITERATE and b.value is not None]
        return isinstance(whole, cst.Subscript) and any(same(v, whole.value) for v in walked)
    if isinstance(parent, cst.Comparison) and parent.left is node:
        return all(string_value(target.comparator) is not None for target in parent.comparisons)
    if isinstance(parent, cst.IfExp) and parent.orelse is node:
        moved = is_transfer(roles, parent.body) and same(receiver(parent.body), node)
        return moved and asks_for_tensor(roles, parent.test, node)
    return isinstance(parent, cst.DictComp) and parent.key is node


def _block(use: BatchUse, node: cst.CSTNode) -> None:
    use.blocker = use.blocker or node


def _target_of(roles: Roles, element: cst.CSTNode) -> bool:
    """Whether an element or target stands on the left side of an assignment (``batch[k] = ...``)."""
    index = roles.index(element)
    return isinstance(element, cst.AssignTarget) or any(
        isinstance(a, cst.AssignTarget) for a in index.ancestors(element)
    )


def _judge_element(roles: Roles, element: cst.Element, use: BatchUse, depth: int) -> None:
    """``images, masks = batch["image"], batch["mask"]``: go on with the target at the same place.

    In ``[t.to(device) for t in (x, y)]`` go on with the comprehension's target, in a call with the argument.
    """
    index = roles.index(element)
    sequence = index.parent(element)
    assign = index.parent(sequence) if sequence is not None else None
    if isinstance(assign, cst.CompFor) and assign.iter is sequence:
        _follow_comprehension(roles, assign, use, depth)
        return
    if isinstance(assign, cst.Arg) and isinstance(sequence, (cst.Tuple, cst.List)):
        _judge(roles, sequence, use, depth)
        return
    target = assign.targets[0].target if isinstance(assign, cst.Assign) and len(assign.targets) == 1 else None
    pairs = isinstance(sequence, cst.Tuple) and isinstance(target, cst.Tuple)
    if not pairs or len(sequence.elements) != len(target.elements):  # type: ignore[union-attr]
        _block(use, element)
        return
    position = next(i for i, e in enumerate(sequence.elements) if e is element)  # type: ignore[union-attr]
    name = target.elements[position].value  # type: ignore[union-attr]
    scope = index.scope_of(name)
    bound = [b for b in scope.bindings.get(getattr(name, "value", ""), ()) if b.node is name]
    for binding in bound:
        _follow(roles, binding, name.value, use, depth + 1)
    if not bound:
        _block(use, element)


def _judge_attribute(
    roles: Roles, node: cst.BaseExpression, attribute: cst.Attribute, use: BatchUse, depth: int
) -> None:
    index = roles.index(node)
    call = index.parent(attribute)
    name = attribute.attr.value
    if not (isinstance(call, cst.Call) and call.func is attribute):
        if name not in _SHAPE_ATTRIBUTES:
            _block(use, node)
    elif is_transfer(roles, call):
        use.transfers.append(call)
    elif name == "type" and (cast := cast_to(roles, call)) is not None and cast[0] == "cpu":
        given = value_of(call, "dtype", 0)
        use.casts.append(call)
        _judge(roles, call, use, depth)
        if isinstance(given, cst.Name):
            _block(use, call)
    elif name in ("items", "values") or name in _VIEWS or name == "to":
        _judge(roles, call, use, depth)
    elif name not in _SHAPE:
        _block(use, node)


def is_transfer(roles: Roles, call: cst.CSTNode) -> bool:
    """Whether a call moves a tensor to the device: ``.cuda()``, ``.to(device)``, ``.type(torch.cuda.X)``."""
    if not isinstance(call, cst.Call):
        return False
    if method(call) == "cuda":
        return True
    if method(call) == "type":
        cast = cast_to(roles, call)
        return cast is not None and cast[0] == "cuda"
    if method(call) != "to":
        return False
    target = value_of(call, "device", 0)
    if target is None or roles.path(target).startswith("torch."):
        return False
    if isinstance(target, cst.Integer):
        return True
    kinds = roles.kinds(target)
    if Kind.DEVICE in kinds or Kind.STRING in kinds or Kind.OPTION in kinds:
        return roles.places(target) != {"cpu"}
    return not kinds & {Kind.TENSOR, Kind.NAME} or Kind.NUMBER in kinds


def _judge_argument(
    roles: Roles, node: cst.BaseExpression, arg: cst.Arg, use: BatchUse, depth: int
) -> None:
    call = roles.index(node).parent(arg)
    if not isinstance(call, cst.Call):
        _block(use, node)
        return
    path = roles.path(call.func)
    if path in _HARMLESS_CALLS:
        return
    if path in ("builtins.tuple", "builtins.list", "builtins.enumerate", "builtins.zip", "builtins.dict"):
        _judge(roles, call, use, depth)
        return
    if path == "builtins.map" and len(call.args) == 2 and call.args[1] is arg:
        _follow_mapped(roles, call.args[0].value, use, node, depth)
        return
    if wrapped_models(roles).holds(call.func):
        return  # the wrapper brings it to the device
    functions = [f for f in roles.facts(call.func) if f.kind is Kind.FUNCTION]
    followed = False
    for item in functions:
        if isinstance(item.node, cst.FunctionDef):
            followed = _follow_parameter(roles, item.node, call, arg, use, depth) or followed
    if not followed:
        _block(use, node)


def _follow_parameter(
    roles: Roles, function: cst.FunctionDef, call: cst.Call, arg: cst.Arg, use: BatchUse, depth: int
) -> bool:
    param = arriving_parameter(roles, function, call, arg)
    if param is not None:
        _follow_into(roles, function, param, use, depth)
    return param is not None


def _follow_mapped(
    roles: Roles, mapped: cst.BaseExpression, use: BatchUse, node: cst.CSTNode, depth: int
) -> None:
    """``map(lambda t: t.to(device), batch)``: go on with the parameter of what is mapped."""
    functions = [f.node for f in roles.facts(mapped) if isinstance(f.node, (cst.FunctionDef, cst.Lambda))]
    params = [parameters(function) for function in functions]
    if not functions or not all(params):
        _block(use, node)
    for function, found in zip(functions, params, strict=True):
        if found and isinstance(function, cst.Lambda):
            for binding in roles.index(function).scopes[function].bindings[found[0].name.value]:
                _follow(roles, binding, found[0].name.value, use, depth + 1)
        elif found:
            _follow_into(roles, function, found[0], use, depth)


def _follow_into(
    roles: Roles, function: cst.FunctionDef | cst.Lambda, param: cst.Param, use: BatchUse, depth: int
) -> None:
    inner = BatchUse()
    scope = roles.index(function).scopes[function]
    for binding in scope.bindings[param.name.value]:
        if binding.how is How.PARAMETER:
            _follow(roles, binding, param.name.value, inner, depth + 1)
    use.blocker = use.blocker or inner.blocker or next(iter(inner.casts), None)
    if inner.transfers and not use.transfers:
        use.transfers.extend(inner.transfers)


def _follow_targets(
    roles: Roles, statement: cst.Assign | cst.For, use: BatchUse, depth: int
) -> None:
    index = roles.index(statement)
    scope = index.scope_of(statement)
    found = False
    for name, bindings in list(scope.bindings.items()):
        for binding in bindings:
            if binding.statement is statement:
                found = True
                _follow(roles, binding, name, use, depth + 1)
    if not found:
        _block(use, statement)


def _follow_comprehension(roles: Roles, clause: cst.CompFor, use: BatchUse, depth: int) -> None:
    index = roles.index(clause)
    outer = next((a for a in index.ancestors(clause) if isinstance(a, COMPREHENSIONS)), None)
    if outer is None:
        return
    for name, bindings in list(index.scopes[outer].bindings.items()):
        for binding in bindings:
            if binding.statement is clause:
                _follow_in_comprehension(roles, binding, name, use, depth)


def _follow_in_comprehension(
    roles: Roles, binding: Binding, name: str, use: BatchUse, depth: int
) -> None:
    """Dictionary keys of ``{k: v.to(device) for k, v in batch.items()}`` are strings: always fine."""
    if binding.path == (0,) and binding.value is not None and method(binding.value) == "items":
        return
    _follow(roles, binding, name, use, depth + 1)

