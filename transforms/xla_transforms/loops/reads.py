"""Which expressions bring the value of a device tensor to the host.

Each costs a transfer and, before the step's barrier, an execution of its own.
Source: the guide "PyTorch on XLA devices" and "Recompilation" of pytorch/xla; counts measured on 2.9.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.tree import children, method, receiver, walk

FETCHES = frozenset({"item", "tolist", "cpu", "numpy"})
_CASTS = frozenset(f"builtins.{name}" for name in ("float", "int", "bool", "complex"))
_SHOWS = frozenset(
    {*(f"builtins.{name}" for name in ("print", "str", "repr", "format")), "torchvision.utils.save_image"}
)
_COMPARES = frozenset({"builtins.min", "builtins.max"})
_LOOKS = frozenset({"detach", "items", "keys", "values"})  # give the device no work
_COMPUTE = ("math.", "numpy.", "sklearn.")
_LOG = ("wandb.", "logging.", "tqdm.", "mlflow.")
# Methods of writers, bars and loggers that look at the values they are given.
LOG_METHODS = frozenset(
    {
        "add_scalar", "add_scalars", "add_histogram", "add_image", "add_images", "add_figure", "add_text",
        "set_postfix", "set_postfix_str", "set_description", "set_description_str", "info", "debug",
        "warning", "error", "critical", "log", "log_metric", "log_metrics", "report_scalar", "writerow",
        "write", "flush", "refresh", "track",
    }
)  # fmt: skip


class Reads:
    """Answers, for expressions and statements of a program, what they read from the device."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles

    def on_device(self, node: cst.CSTNode | None) -> bool:
        """Whether an expression is known to be a tensor that may live on the device."""
        if node is None:
            return False
        tensors = [f for f in self.roles.facts(node) if f.kind is Kind.TENSOR]
        return any(f.detail in ("device", "") for f in tensors)

    def within(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The outermost expressions below a node that read a device tensor, in source order."""
        stack = [node]
        while stack:
            current = stack.pop()
            if current is not node and isinstance(current, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
                continue
            if isinstance(current, cst.BaseExpression) and self.reads(current):
                yield current
                continue
            stack.extend(reversed(_parts(current)))

    def any_within(self, node: cst.CSTNode) -> bool:
        return next(self.within(node), None) is not None

    def reads(self, node: cst.BaseExpression) -> bool:
        """Whether evaluating this very expression (not its parts) fetches a value from the device."""
        if isinstance(node, cst.Call):
            return self.fetched(node) is not None or self._shown(node)
        if isinstance(node, cst.FormattedString):
            return any(
                self.on_device(p.expression)
                for p in node.parts
                if isinstance(p, cst.FormattedStringExpression)
            )
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
            return Kind.STRING in self.roles.kinds(node.left) and any(map(self.on_device, _items(node.right)))
        if isinstance(node, cst.UnaryOperation):
            return isinstance(node.operator, cst.Not) and self.on_device(node.expression)
        if isinstance(node, cst.BooleanOperation):
            return self.on_device(node.left)
        return isinstance(node, cst.IfExp) and self.on_device(node.test)

    def fetched(self, call: cst.CSTNode) -> cst.BaseExpression | None:
        """The tensor that ``x.item()``, ``float(x)`` and the like bring to the host as a value."""
        if not isinstance(call, cst.Call):
            return None
        base, name = receiver(call), method(call)
        if name in FETCHES and base is not None and not self.roles.path(call.func):
            return base if self.may_be_device(base, name) else None
        if self.roles.path(call.func) in _CASTS and len(call.args) == 1:
            return call.args[0].value if self.on_device(call.args[0].value) else None
        return None

    def may_be_device(self, base: cst.BaseExpression, name: str) -> bool:
        if self.on_device(base):
            return True
        if self.roles.kinds(base):
            return False
        inner = base.func if isinstance(base, cst.Call) else base
        return name in ("item", "cpu") and not self.roles.path(inner)

    def _shown(self, call: cst.Call) -> bool:
        values = [item for arg in call.args for item in _items(arg.value)]
        path = self.roles.path(call.func)
        looks = path in _COMPARES or path.startswith(_COMPUTE) or self.shows(call)
        return looks and any(map(self.on_device, values))

    def shows(self, call: cst.Call) -> bool:
        """Whether a call writes its arguments down, for a reader or into a text."""
        path, name = self.roles.path(call.func), method(call)
        if path in _SHOWS or path.startswith(_LOG):
            return True
        if name in LOG_METHODS:
            return not path.startswith("torch.")
        return name == "format" and Kind.STRING in self.roles.kinds(receiver(call))

    def plain(self, node: cst.CSTNode) -> bool:
        """Whether an expression only names a tensor that is computed already."""
        while True:
            if isinstance(node, cst.Call) and method(node) in _LOOKS:
                node = node.func
            elif isinstance(node, cst.Attribute) or (
                isinstance(node, cst.Subscript) and self._looks_up(node)
            ):
                node = node.value
            else:
                return isinstance(node, cst.Name)

    def _looks_up(self, node: cst.Subscript) -> bool:
        """Whether a subscript takes an entry of a container, not a part of a tensor."""
        index = node.slice[0].slice
        key = isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)
        return key or bool(self.roles.kinds(node.value) & {Kind.MODEL, Kind.SEQUENCE, Kind.MAPPING})

    def computed(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The outermost expressions below a node that give the device work before they are read."""
        stack = [node]
        while stack:
            current = stack.pop()
            if isinstance(current, (cst.FunctionDef, cst.ClassDef)):
                continue
            tensor = self.fetched(current)
            if tensor is not None and not self.plain(tensor) and self.fetched(tensor) is None:
                yield tensor
            elif isinstance(current, cst.BaseExpression) and self._own(current):
                if not self.plain(current):
                    yield current
            else:
                stack.extend(reversed(children(current)))

    def _own(self, node: cst.BaseExpression) -> bool:
        return not isinstance(node, (cst.Tuple, cst.List, cst.Dict)) and self.on_device(node)

    def decides(self, statement: cst.CSTNode) -> cst.BaseExpression | None:
        """The condition of a statement, where Python must know a device tensor to decide it."""
        if not isinstance(statement, (cst.If, cst.While, cst.Assert)):
            return None
        test = statement.test
        return test if self.on_device(test) or self.any_within(test) else None


def _parts(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Children of a node; of a compound statement only its head."""
    return [
        c
        for c in children(node)
        if not isinstance(c, (cst.BaseSuite, cst.Else, cst.Finally, cst.ExceptHandler))
    ]


def _items(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """An argument, or the values of the tuple, list or dictionary it is."""
    if isinstance(node, (cst.Tuple, cst.List)):
        return [e.value for e in node.elements]
    if isinstance(node, cst.Dict):
        return [e.value for e in node.elements if isinstance(e, cst.DictElement)]
    return [node]


def spans_lines(node: cst.CSTNode) -> bool:
    """Whether a string that goes over several lines is in a node: such text cannot be indented anew."""
    for part in walk(node):
        if isinstance(part, cst.SimpleString) and "\n" in part.value:
            return True
        if isinstance(part, cst.FormattedString) and "\n" in part.start + "".join(
            p.value for p in part.parts if isinstance(p, cst.FormattedStringText)
        ):
            return True
    return False
