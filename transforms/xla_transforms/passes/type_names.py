"""Names of tensor types: ``dtype = torch.cuda.FloatTensor if cuda else torch.FloatTensor``.

What only casts becomes a dtype, what makes tensors the type of the host; either way the calls get the device.
Source: pytorch v2.9, ``torch.cuda.FloatTensor`` exists without CUDA and raises when it is used.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.placing import device_at, device_here
from xla_transforms.plan import Planned
from xla_transforms.roles.types import DTYPES
from xla_transforms.tensor_types import Named, follow, type_at
from xla_transforms.tree import receiver, value_of, walk

NAMED = Rule(
    "XLA119",
    "type-name",
    "A name for CUDA's tensor types becomes one for a dtype, and the choice it stood for one of a device.",
    "What a CUDA tensor type makes or casts raises without CUDA.",
)
RULES = (NAMED,)


def run(context: Context) -> None:
    if not context.uses_cuda or not context.program.says("Tensor", *DTYPES):
        return
    done: set[cst.CSTNode] = set()
    for node in list(context.index.all(cst.Attribute, cst.SimpleString)):
        if isinstance(node, cst.BaseExpression) and node not in done and _of_cuda(context, node):
            named = follow(context.roles, node)
            done.update(named.types)
            if named.named and _understood(context, named):
                with context.plan.together(named):
                    TypeName(context, named).rewrite()


def _of_cuda(context: Context, node: cst.BaseExpression) -> bool:
    written = type_at(context.roles, node)
    return written is not None and written[0] == "cuda" and not context.roles.dead(node)


def _understood(context: Context, named: Named) -> bool:
    """Whether all is in sight, in one module, and open; what makes tensors is of one type."""
    nodes = [*named.types, *named.made, *named.casts]
    here = all(context.roles.index(node) is context.index for node in nodes)
    if named.lost or not here or (named.made and len(named.names) > 1):
        return False
    return all(context.plan.free(node) for node in named.types)


class TypeName:
    def __init__(self, context: Context, named: Named) -> None:
        self.context = context
        self.named = named
        self.choice = _Choice(context, named)

    def rewrite(self) -> None:
        if not self.choice.settle():
            return
        change = self.context.plan.change(NAMED, next(iter(self.named.types)), "the type becomes a dtype")
        for value in dict.fromkeys(map(self.choice.whole, self.named.types)):
            self._source(change, value)
        for call in self.named.casts:
            self._cast(call)
        for call in self.named.made:
            move = self.context.plan.change(NAMED, call, "the tensor is moved to the script's device")
            move.wrap(call, f"{{0}}.to({self._device(call, move)})")

    def _source(self, change: Planned, value: cst.BaseExpression) -> None:
        inside = [way for way in self.named.types if self.context.index.within(way, value)]
        texts = {way: self._text(self.named.types[way][1]) for way in inside}
        if len(set(texts.values())) == 1:
            change.replace(value, texts[inside[0]])
            return
        for way, text in texts.items():
            change.replace(way, text)

    def _text(self, name: str) -> str:
        return f"torch.{name}" if self.named.made else f"torch.{DTYPES[name]}"

    def _cast(self, call: cst.Call) -> None:
        base, given = receiver(call), value_of(call, "dtype", 0)
        if base is None or given is None or not self.context.plan.free(call):
            return
        dtype = f"torch.{DTYPES[next(iter(self.named.names))]}" if self.named.made else "{1}"
        if self.context.loops.needless(call):
            with self.context.plan.together(needs=[self.context.loops.of(call)]):
                message = "the device loader brings the batch to the device"
                change = self.context.plan.change(NAMED, call, message)
            change.replace(call, f"{{0}}.to({dtype})", base, given)
            return
        change = self.context.plan.change(NAMED, call, "the cast moves to the script's device")
        change.replace(call, f"{{0}}.to({self._device(call, change)}, {dtype})", base, given)

    def _device(self, call: cst.Call, change: Planned) -> str:
        chosen = device_at if self.choice.open else device_here
        return chosen(self.context, call, change)


class _Choice:
    """Whether the user chooses between CUDA's type and the host's, and where."""

    def __init__(self, context: Context, named: Named) -> None:
        self.context = context
        self.named = named
        self.live = [way for way in named.types if self._live(way)]
        self.open = len({named.types[way][0] for way in self.live}) > 1

    def whole(self, way: cst.BaseExpression) -> cst.BaseExpression:
        """The conditional expression around a type."""
        parent = self.context.index.parent(way)
        inside = isinstance(parent, cst.IfExp) and parent.test is not way
        return self.whole(parent) if inside and isinstance(parent, cst.IfExp) else way

    def _live(self, way: cst.BaseExpression) -> bool:
        node: cst.CSTNode = way
        while isinstance(parent := self.context.index.parent(node), cst.IfExp):
            taken = self.context.roles.fold(parent.test)
            if taken is not None and taken is not (parent.body is node):
                return False
            node = parent
        return not self.context.roles.dead(way)

    def settle(self) -> bool:
        """Whether the device is at hand that goes with the type; may bind it where the type is chosen."""
        uses = [*self.named.casts, *self.named.made]
        if not self.open or all(self.context.placing.visible(call) for call in uses):
            return True
        ways = {self.named.types[way][0]: way for way in self.live}
        if len(self.live) != 2 or self.context.index.named("device"):
            return False
        return self._expression(ways) or self._statement(ways)

    def _expression(self, ways: dict[str, cst.BaseExpression]) -> bool:
        """``device = torch_xla.device() if cuda else torch.device("cpu")`` above the choice of a type."""
        index = self.context.index
        value = self.whole(ways["cuda"])
        statement = index.statement_of(value)
        if not isinstance(value, cst.IfExp) or value is not self.whole(ways["cpu"]) or statement is None:
            return False
        if not _says_the_same(value.test):
            return False
        change = self._change(value)
        devices = [self._spell(change, value.body, ways), self._spell(change, value.orelse, ways)]
        test = index.source.code(value.test)
        change.before(statement, f"device = {devices[0]} if {test} else {devices[1]}")
        self.context.placing.declare(statement, "device")
        return True

    def _statement(self, ways: dict[str, cst.BaseExpression]) -> bool:
        """A device in each of the two branches in which a type is chosen."""
        index = self.context.index
        branches = [index.branch(way) for way in ways.values()]
        statements = [index.statement_of(way) for way in ways.values()]
        first, second = branches
        if first is None or second is None or first.statement is not second.statement:
            return False
        if first.in_body is second.in_body or None in statements:
            return False
        change = self._change(ways["cuda"])
        for way, statement in zip(ways.values(), statements, strict=True):
            if statement is not None:
                change.before(statement, f"device = {self._spell(change, way, ways)}")
        self.context.placing.declare(first.statement, "device")
        return True

    def _change(self, node: cst.CSTNode) -> Planned:
        return self.context.plan.change(NAMED, node, "the choice of a type was the choice of a device")

    def _spell(
        self, change: Planned, way: cst.BaseExpression, ways: dict[str, cst.BaseExpression]
    ) -> str:
        return change.spell(self.context.target.device) if way is ways["cuda"] else 'torch.device("cpu")'


def _says_the_same(test: cst.BaseExpression) -> bool:
    """Whether a copy of a condition means on XLA what it meant: a flag, and no question about CUDA."""
    asking = (cst.Call, cst.BaseString)
    return not any(
        isinstance(node, asking) or (isinstance(node, cst.Attribute) and node.attr.value == "is_cuda")
        for node in walk(test)
    )
