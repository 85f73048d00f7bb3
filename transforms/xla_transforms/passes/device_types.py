"""Types: ``torch.cuda.FloatTensor`` and its kin, as constructors, as casts and by other names.

``torch.cuda.FloatTensor(x)`` becomes ``torch.FloatTensor(x).to(device)``, ``x.type(torch.cuda.LongTensor)``
becomes ``x.to(device, torch.int64)``. There are no tensor types for XLA: ``x.type()`` gives
``"torch.xla.FloatTensor"``, which names no attribute of torch.
Source: pytorch v2.9, "Tensor class reference" (legacy constructors); pytorch/xla v2.9.0.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.naming import reads
from xla_transforms.placing import device_at, device_here
from xla_transforms.roles.types import DTYPES
from xla_transforms.tree import method, receiver, string_value, value_of

MADE = Rule(
    "XLA108",
    "cuda-tensor",
    "A tensor made by a CUDA tensor type is made by the CPU's type and moved.",
    "torch.cuda.FloatTensor raises without CUDA.",
)
CAST = Rule(
    "XLA109",
    "cuda-cast",
    "A cast to a CUDA tensor type becomes a move with a dtype.",
    "x.type('torch.cuda.FloatTensor') raises without CUDA.",
)
TYPE_LEFT = Rule(
    "XLA194",
    "tensor-type-left",
    "A CUDA tensor type stays, because it is not known what becomes of it.",
    "Making a tensor of it raises without CUDA.",
    Severity.WARNING,
)
RULES = (MADE, CAST, TYPE_LEFT)

_PREFIX = "torch.cuda."


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    for assign in list(context.index.all(cst.Assign)):
        assert isinstance(assign, cst.Assign)
        alias = Alias(context, assign)
        if alias.types and context.plan.free(assign.value):
            alias.rewrite()
    for call in list(context.index.all(cst.Call)):
        if isinstance(call, cst.Call) and method(call) == "type" and context.plan.free(call):
            given = value_of(call, "dtype", 0)
            name = cuda_type(context, given) if given is not None else ""
            if name:
                _cast(context, call, f"torch.{DTYPES[name]}")
    for node in list(context.index.all(cst.Attribute)):
        if isinstance(node, cst.Attribute) and cuda_type(context, node) and context.plan.free(node):
            _type(context, node)


def cuda_type(context: Context, node: cst.CSTNode) -> str:
    """``FloatTensor`` for ``torch.cuda.FloatTensor`` or the string of it, else the empty string."""
    path = string_value(node) or context.roles.path(node)
    name = path.removeprefix(_PREFIX)
    return name if path.startswith(_PREFIX) and name in DTYPES and not isinstance(node, cst.Name) else ""


def _cast(context: Context, call: cst.Call, dtype: str) -> None:
    base = receiver(call)
    assert base is not None
    if context.loops.needless(call):
        change = context.plan.change(CAST, call, "the device loader brings the batch to the device")
        change.replace(call, f"{{0}}.to({dtype})", base)
        return
    change = context.plan.change(CAST, call, "the cast moves to the XLA device")
    device = device_here(context, call, change)
    change.replace(call, f"{{0}}.to({device}, {dtype})", base)


def _type(context: Context, node: cst.Attribute) -> None:
    parent = context.index.parent(node)
    if context.roles.dead(node) or any(context.plan.claims(a) for a in context.index.ancestors(node)):
        return
    if isinstance(parent, cst.Call) and parent.func is node and context.plan.free(parent):
        _made(context, node, parent)
    else:
        message = "it is not known what becomes of this tensor type"
        context.plan.report(TYPE_LEFT, node, message, "use a dtype and a device instead")


def _made(context: Context, node: cst.Attribute, call: cst.Call) -> None:
    """``torch.tensor`` of a literal, ``torch.empty`` of sizes; what may be either keeps its constructor."""
    change = context.plan.change(MADE, call, "the tensor is made for the XLA device")
    name = cuda_type(context, node)
    dtype = "" if name == "FloatTensor" else f", dtype=torch.{DTYPES[name]}"
    device = device_here(context, call, change)
    first = call.args[0] if call.args else None
    if first is not None and isinstance(first.value, (cst.List, cst.Tuple)) and len(call.args) == 1:
        whole = ", dtype=torch.float32" if not dtype and not _all_floats(first.value) else dtype
        change.replace(call, f"torch.tensor({{0}}{whole}, device={device})", first.value)
    elif len(call.args) > 1 or (first is not None and first.star):
        sizes = ", ".join(f"{arg.star}{{{i}}}" for i, arg in enumerate(call.args))
        change.replace(call, f"torch.empty({sizes}{dtype}, device={device})", *(a.value for a in call.args))
    else:
        change.replace(node, f"torch.{name}")
        change.wrap(call, f"{{0}}.to({device})")


def _all_floats(literal: cst.List | cst.Tuple) -> bool:
    return bool(literal.elements) and all(isinstance(e.value, cst.Float) for e in literal.elements)


class Alias:
    """A type under another name: ``Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor``."""

    def __init__(self, context: Context, assign: cst.Assign) -> None:
        self.context = context
        self.assign = assign
        self.types = {n: t for n in self._ways(assign.value) if (t := cuda_type(context, n))}
        self.target = assign.targets[0].target

    def _ways(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        if isinstance(node, cst.IfExp):
            return [*self._ways(node.body), *self._ways(node.orelse)]
        return [node]

    def rewrite(self) -> None:
        ways = self._ways(self.assign.value)
        names = {self.types.get(w) or self.context.roles.path(w).removeprefix("torch.") for w in ways}
        uses = self._uses()
        if uses is None or not names <= set(DTYPES):
            for node in self.types:
                self.context.plan.report(TYPE_LEFT, node, "it is not known what becomes of this tensor type")
        elif all(method(call) == "type" for call in uses):
            self._as_dtypes(ways, uses)
        elif len(names) == 1:
            self._as_one_type(names.pop(), uses)
        else:
            message = "tensors of several types are made under one name"
            self.context.plan.report(
                TYPE_LEFT, self.assign.value, message, "use a dtype and a device instead"
            )

    def _uses(self) -> list[cst.Call] | None:
        """The calls that make a tensor of the type or cast to it; ``None`` where it goes elsewhere."""
        if not isinstance(self.target, cst.Name) or len(self.assign.targets) != 1:
            return None
        found: list[cst.Call] = []
        for read in reads(self.context.roles, self.target, self.target.value):
            parent = self.context.index.parent(read)
            call = self.context.index.parent(parent) if isinstance(parent, cst.Arg) else parent
            if not isinstance(call, cst.Call) or (call.func is not read and method(call) != "type"):
                return None
            found.append(call)
        return found

    def _as_dtypes(self, ways: list[cst.BaseExpression], uses: list[cst.Call]) -> None:
        change = self.context.plan.change(CAST, self.assign, "the type becomes a dtype")
        for way in ways:
            name = self.types.get(way) or self.context.roles.path(way).removeprefix("torch.")
            change.replace(way, f"torch.{DTYPES[name]}")
        for call in uses:
            self._cast_use(call, getattr(self.target, "value", ""))

    def _as_one_type(self, name: str, uses: list[cst.Call]) -> None:
        """One type on the host; its choice of a place becomes a device variable."""
        self._choose_device()
        change = self.context.plan.change(
            MADE, self.assign, "the type is the host's; what is made of it is moved"
        )
        change.replace(self.assign.value, f"torch.{name}")
        for call in uses:
            if method(call) == "type":
                self._cast_use(call, f"torch.{DTYPES[name]}")
            else:
                move = self.context.plan.change(MADE, call, "the tensor is moved to the script's device")
                move.wrap(call, f"{{0}}.to({device_at(self.context, call, move)})")

    def _cast_use(self, call: cst.Call, dtype: str) -> None:
        base = receiver(call)
        if base is not None and self.context.loops.needless(call):
            change = self.context.plan.change(CAST, call, "the device loader brings the batch to the device")
            change.replace(call, f"{{0}}.to({dtype})", base)
        elif base is not None and self.context.plan.free(call):
            change = self.context.plan.change(CAST, call, "the cast moves to the script's device")
            change.replace(call, f"{{0}}.to({device_at(self.context, call, change)}, {dtype})", base)

    def _choose_device(self) -> None:
        """``device = torch_xla.device() if cuda else torch.device("cpu")`` above the first such choice."""
        value, index = self.assign.value, self.context.index
        statement = index.statement_of(self.assign)
        if not isinstance(value, cst.IfExp) or self.context.roles.fold(value.test) is not None:
            return
        taken = self.context.placing.visible(self.assign) or index.named("device")
        if taken or statement is None:
            return
        change = self.context.plan.change(
            MADE, self.assign, "the choice of a type was the choice of a device"
        )
        ways = [change.spell(self.context.target.device), 'torch.device("cpu")']
        first, second = ways if value.body in self.types else reversed(ways)
        change.before(statement, f"device = {first} if {index.source.code(value.test)} else {second}")
        self.context.placing.declare(statement, "device")
