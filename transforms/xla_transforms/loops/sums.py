"""Running sums of values read from the device: ``running += loss.item() * n``."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from xla_transforms.loops.reads import Reads
from xla_transforms.loops.units import Unit
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.scopes import Binding, How
from xla_transforms.tree import has_star, method, number_value, receiver, same, string_value, value_of, walk

_LOGICAL = frozenset(
    {
        "eq",
        "ne",
        "gt",
        "ge",
        "lt",
        "le",
        "isclose",
        "logical_and",
        "logical_or",
        "logical_not",
        "bool",
        "isnan",
    }
)
_VIEWS = frozenset(
    {"view", "view_as", "reshape", "squeeze", "cpu", "detach", "flatten", "t", "data", "clone"}
)
_FLOATS = frozenset(
    {"mean", "float", "norm", "std", "var", "sigmoid", "softmax", "double", "half", "sqrt", "log"}
)
_LOSSES = frozenset(
    f"torch.nn.functional.{name}"
    for name in (
        "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
    )
)  # fmt: skip
_LOSS_MODULES = frozenset(
    f"torch.nn.{name}"
    for name in (
        "CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss",
        "BCEWithLogitsLoss", "KLDivLoss",
    )
)  # fmt: skip
_KEPT = frozenset({"detach", "float", "double", "cpu", "clone", "data"})  # as many values as before
_DEPTH = 4
_INTEGERS = frozenset({"long", "int", "argmax", "argmin", "argsort", "multinomial", "randperm"})


@dataclass(eq=False)
class Sum:
    """A number that a loop adds tensors' values to; ``cast`` restores it behind the loop: int or float."""

    name: str
    units: list[Unit] = field(default_factory=list)
    leaves: list[cst.Call] = field(default_factory=list)
    cast: str = "float"
    counts: bool = False
    listed: bool = False  # a list to which they are appended


class Sums:
    """Finds out whether a statement is an addition to a running sum, and of what."""

    def __init__(self, roles: Roles, reads: Reads) -> None:
        self.roles, self.reads = roles, reads

    def addition(self, statement: cst.CSTNode) -> tuple[cst.Name, cst.BaseExpression] | None:
        """The sum's name and what is added: ``n += x``, ``n -= x``, ``n = n + x``."""
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return None
        small = statement.body[0]
        if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
            additive = isinstance(small.operator, (cst.AddAssign, cst.SubtractAssign))
            return (small.target, small.value) if additive else None
        if not isinstance(small, cst.Assign) or len(small.targets) != 1:
            return None
        target, value = small.targets[0].target, small.value
        if not isinstance(target, cst.Name) or not isinstance(value, cst.BinaryOperation):
            return None
        own = isinstance(value.left, cst.Name) and value.left.value == target.value
        return (target, value.right) if own and isinstance(value.operator, cst.Add) else None

    def collected(self, statement: cst.CSTNode) -> tuple[cst.Name, cst.BaseExpression] | None:
        """The list's name and what is appended: ``losses.append(x)``, the list made as a literal."""
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if not isinstance(small, cst.Expr) or method(small.value) != "append" or len(statement.body) != 1:  # type: ignore[attr-defined]
            return None
        base = receiver(small.value)
        assert isinstance(small.value, cst.Call)
        if not isinstance(base, cst.Name) or len(small.value.args) != 1:
            return None
        made = [f for f in self.roles.facts(base) if f.kind is not Kind.NONE]
        lists = all(f.kind is Kind.SEQUENCE and isinstance(f.node, cst.List) for f in made)
        return (base, small.value.args[0].value) if made and lists else None

    def into_tensor(self, statement: cst.CSTNode) -> list[cst.Call]:
        """The reads in what is added to a tensor of the device, which takes the tensors themselves as well.

        ``totals[0] += loss.item()``: in place, so that they must be single values.
        """
        alone = isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
        small = statement.body[0] if alone and isinstance(statement, cst.SimpleStatementLine) else None
        if not isinstance(small, cst.AugAssign) or not isinstance(small.target, cst.Subscript):
            return []
        into = small.target.value
        additive = isinstance(small.operator, (cst.AddAssign, cst.SubtractAssign))
        if not additive or not self.reads.on_device(into) or self.roles.kinds(into) != {Kind.TENSOR}:
            return []
        found = self.leaves(small.value, set()) or []
        return found if all(self._single(self.value_read(leaf)) for leaf in found) else []

    def _single(self, node: cst.BaseExpression | None, depth: int = 0) -> bool:
        """Whether a tensor surely has no dimension: a mean, a sum, a loss that is one."""
        if isinstance(node, cst.Name):
            bindings = self.roles.bindings(node) if depth < _DEPTH else []
            plain = bool(bindings) and all(b.how is How.ASSIGN and not b.path for b in bindings)
            return plain and all(self._single(b.value, depth + 1) for b in bindings)
        if isinstance(node, cst.BinaryOperation):
            sides = (node.left, node.right)
            return all(number_value(side) is not None or self._single(side, depth) for side in sides)
        if not isinstance(node, cst.Call):
            return False
        if method(node) in _KEPT and not node.args:
            return self._single(receiver(node), depth)
        path, base = self.roles.path(node.func), receiver(node)
        if method(node) in ("mean", "sum") and not path:
            return not node.args and base is not None and self.reads.may_be_device(base, "item")
        made = [node] if path in _LOSSES else [f.node for f in self.roles.facts(node.func)]
        return bool(made) and all(self._is_loss(call) for call in made)

    def _is_loss(self, made: cst.CSTNode | None) -> bool:
        """Whether a call gives a loss of one value, or makes the module that does."""
        if not isinstance(made, cst.Call) or has_star(made):
            return False
        path, reduction = self.roles.path(made.func), value_of(made, "reduction")
        single = string_value(reduction) in ("mean", "sum")
        kept = reduction is None and value_of(made, "reduce") is None
        positional = [arg for arg in made.args if arg.keyword is None]
        return path in _LOSSES | _LOSS_MODULES and (kept or single) and len(positional) <= 2

    def leaves(self, node: cst.BaseExpression, deferred: set[str]) -> list[cst.Call] | None:
        """The reads in an addend that is arithmetic over reads, deferred values and host numbers."""
        tensor = self.value_read(node)
        if isinstance(node, cst.Call) and self.value_function(node) is not None:
            return [node]
        if tensor is not None:
            assert isinstance(node, cst.Call)
            return [node] if not self.reads.any_within(tensor) else None
        if isinstance(node, cst.Name) and node.value in deferred:
            return []
        if isinstance(node, cst.BinaryOperation):
            left, right = self.leaves(node.left, deferred), self.leaves(node.right, deferred)
            plain = isinstance(node.operator, (cst.Add, cst.Subtract, cst.Multiply, cst.Divide))
            return [*left, *right] if plain and left is not None and right is not None else None
        host = not self.reads.on_device(node) and not self.reads.any_within(node)
        return [] if host else None

    def value_read(self, node: cst.CSTNode | None) -> cst.BaseExpression | None:
        """The tensor of ``x.item()`` or ``float(x.item())``, with moves to the host taken off."""
        if not isinstance(node, cst.Call) or method(node) in ("tolist", "cpu", "numpy"):
            return None
        if method(node) == "item":
            return self._on_device(receiver(node))
        tensor = self.reads.fetched(node)
        if tensor is None and self.roles.path(node.func) in ("builtins.float", "builtins.int") and node.args:
            return self.value_read(node.args[0].value)
        return self.value_read(tensor) if method(tensor) == "item" else self._on_device(tensor)

    def _on_device(self, tensor: cst.BaseExpression | None) -> cst.BaseExpression | None:
        while method(tensor) in ("cpu", "detach"):
            tensor = receiver(tensor) if tensor is not None else None
        return tensor if tensor is not None and self.reads.may_be_device(tensor, "item") else None

    def value_function(self, call: cst.CSTNode | None) -> cst.FunctionDef | None:
        """The function of ``total += step(batch)`` that ends in ``return loss.item()``, called here alone."""
        if not isinstance(call, cst.Call):
            return None
        found = {f.node for f in self.roles.facts(call.func) if f.kind is Kind.FUNCTION}
        function = found.pop() if len(found) == 1 else None
        if not isinstance(function, cst.FunctionDef) or self.roles.index(function) is not self.roles.index(
            call
        ):
            return None
        values = _returned(function)
        if not values or any(v is None or self.value_read(v) is None for v in values):
            return None
        return function if [c for c, _ in callers(self.roles, function)] == [call] else None

    def kind_of(self, node: cst.BaseExpression, depth: int = 0) -> str:
        """``int`` or ``float`` for what an addend adds, the empty string where it is not known."""
        if isinstance(node, cst.BinaryOperation):
            if isinstance(node.operator, cst.Divide):
                return "float"
            kinds = {self.kind_of(node.left, depth), self.kind_of(node.right, depth)}
            return "float" if "float" in kinds else "" if "" in kinds else "int"
        number = number_value(node)
        if number is not None:
            return "float" if isinstance(number, float) else "int"
        tensor = self.value_read(node)
        if tensor is not None and isinstance(node, cst.Call):
            cast = self.roles.path(node.func).removeprefix("builtins.")
            return cast if cast in ("int", "float") else self.dtype_of(tensor)
        function = self.value_function(node)
        if function is not None:
            kinds = {self.kind_of(v, depth + 1) for v in _returned(function) if v is not None}
            return kinds.pop() if len(kinds) == 1 else ""
        if isinstance(node, cst.Call):
            whole = self.roles.path(node.func) == "builtins.len" or method(node) in (
                "size",
                "numel",
                "nelement",
            )
            return "int" if whole else self.dtype_of(node, depth)
        if isinstance(node, cst.Subscript) and isinstance(node.value, cst.Attribute):
            return "int" if node.value.attr.value == "shape" else ""
        return self.dtype_of(node, depth)

    def dtype_of(self, node: cst.CSTNode | None, depth: int = 0) -> str:
        """``int``, ``bool`` or ``float`` for a tensor's elements, the empty string where it is not known."""
        if depth > 6 or node is None:
            return ""
        if isinstance(node, (cst.Name, cst.Subscript, cst.Attribute)) and self._differentiated(node):
            return "float"
        if isinstance(node, cst.Comparison):
            return "bool"
        if isinstance(node, cst.BinaryOperation):
            return self._of_operation(node, depth)
        if isinstance(node, cst.Call):
            return self._of_call(node, depth)
        if isinstance(node, cst.Attribute):
            return self.dtype_of(node.value, depth + 1) if node.attr.value in ("data", "T") else ""
        if isinstance(node, cst.Name):
            found = {self._of_binding(b, depth) for b in self.roles.bindings(node)}
            return found.pop() if len(found) == 1 else ""
        return ""

    def _differentiated(self, node: cst.BaseExpression) -> bool:
        """Whether the module calls ``backward`` on an expression written alike: it is a float."""
        calls = self.roles.program.calls.get("backward", ())
        index = self.roles.index(node)
        function = index.function_of(node)
        return any(
            same(receiver(c), node)
            for c in calls
            if self.roles.index(c) is index and index.function_of(c) is function
        )

    def _of_operation(self, node: cst.BinaryOperation, depth: int) -> str:
        if isinstance(node.operator, cst.Divide):
            return "float"
        kinds = {self.dtype_of(node.left, depth + 1), self.dtype_of(node.right, depth + 1)}
        if "float" in kinds:
            return "float"
        return kinds.pop() if len(kinds) == 1 else ""

    def _of_binding(self, binding: Binding, depth: int) -> str:
        plain = binding.how is How.ASSIGN and not binding.path
        return self.dtype_of(binding.value, depth + 1) if plain else ""

    def _of_call(self, node: cst.Call, depth: int) -> str:
        name, path = method(node), self.roles.path(node.func)
        functions = [f.node for f in self.roles.facts(node.func) if isinstance(f.node, cst.FunctionDef)]
        if functions and Kind.FUNCTION in self.roles.kinds(node.func):
            kinds = {self.dtype_of(v, depth + 1) for f in functions for v in _returned(f)}
            return kinds.pop() if len(kinds) == 1 else ""
        if path.startswith("torch.nn.functional.") or Kind.MODEL in self.roles.kinds(node.func):
            return "float"
        name = path.rpartition(".")[2] if path.startswith("torch.") else name
        base = node.args[0].value if path.startswith("torch.") and node.args else receiver(node)
        if name in _LOGICAL:
            return "bool"
        if name in _FLOATS or name in _INTEGERS:
            return "float" if name in _FLOATS else "int"
        if name in ("sum", "count_nonzero"):
            inner = self.dtype_of(base, depth + 1)
            return "int" if inner == "bool" or name == "count_nonzero" else inner
        return self.dtype_of(base, depth + 1) if name in _VIEWS else ""


def _returned(function: cst.FunctionDef) -> list[cst.BaseExpression | None]:
    return [n.value for n in walk(function.body, into_functions=False) if isinstance(n, cst.Return)]
