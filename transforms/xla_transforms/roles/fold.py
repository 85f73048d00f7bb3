"""Conditions that the move to XLA decides: what was true on CUDA stays true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles.ranks import COUNTS, is_rank, variable
from xla_transforms.scopes import How
from xla_transforms.tree import number_value, same, string_value, walk

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

TRUE_ON_CUDA = frozenset(
    {
        "torch.cuda.is_available",
        "torch.accelerator.is_available",
        "torch.cuda.is_bf16_supported",
        "torch.cuda.is_initialized",
        "torch.backends.cudnn.is_available",
    }
)
FALSE_ON_CUDA = frozenset(
    {
        "torch.backends.mps.is_available",
        "torch.backends.mps.is_built",
        "torch.mps.is_available",
        "torch.xpu.is_available",
        "torch.npu.is_available",
    }
)
ALWAYS_THERE = frozenset({"torch.cuda.amp", "torch.cuda.amp.autocast", "torch.cuda.amp.GradScaler"})
"""What scripts look for with ``hasattr``, and each release has that torch_xla goes with (PyTorch 1.6)."""
IN_GROUP = frozenset(
    f"torch.distributed.{name}"
    for name in (
        "is_available", "is_initialized", "is_nccl_available", "is_torchelastic_launched",
        "distributed_c10d.is_initialized", "distributed_c10d.is_nccl_available",
    )
)  # fmt: skip
"""True in each process of those that train together."""
DEVICE_TYPES = frozenset(
    {"cpu", "cuda", "hip", "hpu", "ipu", "maia", "meta", "mps", "mtia", "npu", "ve", "vulkan", "xla", "xpu"}
)
"""The types of torch.device that a script may ask for (https://docs.pytorch.org/docs/2.9/tensor_attributes.html)."""
_COMPARISONS = {
    cst.Equal: lambda a, b: a == b,
    cst.NotEqual: lambda a, b: a != b,
    cst.GreaterThan: lambda a, b: a > b,
    cst.GreaterThanEqual: lambda a, b: a >= b,
    cst.LessThan: lambda a, b: a < b,
    cst.LessThanEqual: lambda a, b: a <= b,
}


def fold(roles: Roles, node: cst.CSTNode) -> bool | None:
    """The value a condition had on a machine with one CUDA device; ``None`` where the user decides it.

    A program of several processes was on a machine with several devices.
    """
    if isinstance(node, cst.Call):
        path = roles.path(node.func)
        if roles.replicated and path in IN_GROUP:
            return not (path.endswith("is_initialized") and _joins_later(roles, node))
        told = True if path in TRUE_ON_CUDA else False if path in FALSE_ON_CUDA else None
        return finds_amp(roles, node) if told is None else told
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        inner = fold(roles, node.expression)
        return None if inner is None else not inner
    if isinstance(node, cst.BooleanOperation):
        return _boolean(roles, node)
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        return _comparison(roles, node)
    if isinstance(node, cst.IfExp):
        return _either(roles, node)
    if isinstance(node, cst.Name):
        return _name(roles, node)
    return None


def finds_amp(roles: Roles, node: cst.CSTNode) -> bool | None:
    """Whether a look for mixed precision finds it; ``None`` for any other condition.

    ``hasattr(torch.cuda.amp, "autocast")`` does, ``getattr(torch.cuda.amp, "autocast") is None`` does not.
    """
    if isinstance(node, cst.Call):
        return True if _of_amp(roles, node, "hasattr") else None
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return None
    ((operator, right),) = ((c.operator, c.comparator) for c in node.comparisons)
    nothing = isinstance(right, cst.Name) and right.value == "None"
    asked = nothing and isinstance(operator, (cst.Is, cst.IsNot)) and _of_amp(roles, node.left, "getattr")
    return isinstance(operator, cst.IsNot) if asked else None


def _of_amp(roles: Roles, node: cst.CSTNode, function: str) -> bool:
    if not isinstance(node, cst.Call) or len(node.args) < 2:
        return False
    if roles.path(node.func) != f"builtins.{function}":
        return False
    return f"{roles.path(node.args[0].value)}.{string_value(node.args[1].value)}" in ALWAYS_THERE


def _joins_later(roles: Roles, asking: cst.Call) -> bool:
    """Whether a function that asks for the process group goes on to join it: it asks before there is one."""
    index = roles.index(asking)
    function, joins = index.function_of(asking), roles.program.calls.get("init_process_group", ())
    joining = [c for c in joins if roles.path(c.func).startswith("torch.distributed.")]
    inside = {roles.index(c).function_of(c) for c in joining} - {function}
    for join in (f for f in inside if f is not None):
        joining += [c for c in roles.program.calls.get(join.name.value, ()) if _calls(roles, c, join)]
    behind = index.source.offsets(asking)[1]
    return any(
        roles.index(c) is index and index.function_of(c) is function and index.source.offsets(c)[0] > behind
        for c in joining
    )


def _calls(roles: Roles, call: cst.Call, function: cst.FunctionDef) -> bool:
    return any(fact.node is function for fact in roles.facts(call.func))


def _either(roles: Roles, node: cst.IfExp) -> bool | None:
    """``True if torch.cuda.is_available() else False``."""
    test = fold(roles, node.test)
    ways = [node.body, node.orelse] if test is None else [node.body if test else node.orelse]
    values = {fold(roles, way) for way in ways}
    return values.pop() if len(values) == 1 else None


def _boolean(roles: Roles, node: cst.BooleanOperation) -> bool | None:
    sides = (fold(roles, node.left), fold(roles, node.right))
    decisive = isinstance(node.operator, cst.Or)
    if decisive in sides:
        return decisive
    return None if None in sides else not decisive


def _comparison(roles: Roles, node: cst.Comparison) -> bool | None:
    target = node.comparisons[0]
    if (found := finds_amp(roles, node)) is not None:
        return found
    if isinstance(target.operator, (cst.Is, cst.IsNot)) and numbers_gpu(roles, node):
        return isinstance(target.operator, cst.IsNot)
    if isinstance(target.operator, (cst.In, cst.NotIn)) and launched(roles, node):
        return isinstance(target.operator, cst.In)
    compare = _COMPARISONS.get(type(target.operator))
    if compare is None:
        return None
    number = number_value(target.comparator)
    if number is not None:
        values = {bool(compare(value, number)) for value in _values(roles, node.left, number)}
        return values.pop() if len(values) == 1 else None
    kind = (string_value(target.comparator) or "").split(":")[0]
    if kind not in DEVICE_TYPES or not isinstance(target.operator, (cst.Equal, cst.NotEqual)):
        return None
    places = roles.places(_device_behind(node.left))
    if places == {"cuda"} or (places and kind not in places and "?" not in places):
        equal = kind == "cuda" and places == {"cuda"}
        return equal is isinstance(target.operator, cst.Equal)
    return None


def _values(roles: Roles, node: cst.BaseExpression, number: float) -> tuple[float, ...]:
    """Values that an expression may have, those among them that decide how it compares with a number."""
    if isinstance(node, (cst.Call, cst.Name)) and counts_devices(roles, node):
        return (2, max(2, number), max(2, number) + 1) if roles.replicated else (1,)
    return (0, max(0, number), max(0, number) + 1) if roles.replicated and is_rank(roles, node) else ()


def counts_devices(roles: Roles, node: cst.CSTNode) -> bool:
    """Whether an expression is the count of devices; of several processes also by a variable's name."""
    if isinstance(node, cst.Name) and roles.replicated:
        bindings = roles.bindings(node)
        plain = len(bindings) == 1 and not bindings[0].path
        node = bindings[0].value or node if plain else node
    return isinstance(node, cst.Call) and roles.path(node.func) in COUNTS


def launched(roles: Roles, node: cst.CSTNode) -> bool:
    """Whether ``"RANK" in os.environ`` asks a process of several for what its launcher told it."""
    if not roles.replicated or not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return False
    return bool(variable(roles, node.left)) and roles.path(node.comparisons[0].comparator) == "os.environ"


def numbers_gpu(roles: Roles, node: cst.Comparison) -> bool:
    """Whether ``args.gpu is not None`` asks for the number of the one GPU to use instead of all.

    On one device both ways compute the same; the way with a number is the one without DataParallel. Where it
    chooses how processes share the GPUs, the ways differ in more: the user's number decides. So it does where
    without a number the work stays on the CPU.
    """
    if not _asks_for_none(node):
        return False
    moves = (*roles.program.calls.get("cuda", ()), *roles.program.calls.get("set_device", ()))
    given = [c for c in moves for arg in c.args[:1] if arg.keyword is None and same(node.left, arg.value)]
    return any(_on_cuda_anyway(roles, call, node.left) for call in given) and not _shares(roles, node)


def _asks_for_none(node: cst.CSTNode) -> bool:
    one = isinstance(node, cst.Comparison) and len(node.comparisons) == 1
    return one and getattr(node.comparisons[0].comparator, "value", "") == "None"  # type: ignore[attr-defined]


def _on_cuda_anyway(roles: Roles, call: cst.Call, number: cst.BaseExpression) -> bool:
    """Whether a move by a number happens without one too, or CUDA has the work in the other way as well."""
    child: cst.CSTNode = call
    for parent in roles.index(call).ancestors(call):
        if isinstance(parent, cst.If) and any(
            _asks_for_none(n) and same(n.left, number) for n in walk(parent.test)  # type: ignore[attr-defined]
        ):
            other = parent.orelse if child is parent.body else parent.body
            return other is not None and any(_uses_cuda(n) for n in walk(other))
        child = parent
    return True


def _uses_cuda(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value in ("cuda", "DataParallel")


def _shares(roles: Roles, node: cst.Comparison) -> bool:
    """Whether a way behind a condition hands its model to ``DistributedDataParallel``."""
    guard = next((a for a in roles.index(node).ancestors(node) if isinstance(a, cst.If)), None)
    calls = (n for n in walk(guard) if isinstance(n, cst.Call)) if guard is not None else ()
    return any(roles.path(call.func).endswith(".DistributedDataParallel") for call in calls)


def _device_behind(node: cst.BaseExpression) -> cst.BaseExpression:
    """``device`` for ``device.type``."""
    is_type = isinstance(node, cst.Attribute) and node.attr.value == "type"
    return node.value if is_type else node  # type: ignore[attr-defined]


def _name(roles: Roles, node: cst.Name) -> bool | None:
    if node.value in ("True", "False"):
        return node.value == "True"
    bindings = roles.bindings(node)
    if len(bindings) != 1 or bindings[0].value is None or bindings[0].path:
        return None
    with roles.guarded(node) as free:
        return fold(roles, bindings[0].value) if free else None


def number_of(roles: Roles, node: cst.CSTNode | None) -> int | float | None:
    """The number that is written out for an expression: a literal, or what alone is assigned to a name."""
    if not isinstance(node, cst.Name):
        return number_value(node)
    bindings = roles.bindings(node)
    given = bindings[0] if len(bindings) == 1 else None
    plain = given is not None and given.how is How.ASSIGN and not given.path
    return number_value(given.value) if given is not None and plain else None
