"""Statements that only show or store what a step gave: they may run later, in a step closure."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.loops.effects import Effect, Effects
from xla_transforms.loops.reads import LOG_METHODS, Reads
from xla_transforms.roles import Kind, Roles
from xla_transforms.tree import body_of, children, method, receiver, walk

STORE_METHODS = frozenset({"append", "extend", "update", "add", "insert", "add_batch", "appendleft"})
MUTATORS = STORE_METHODS | {"clear", "pop", "remove", "reset", "sort", "reverse", "setdefault", "popleft"}
_SHOW_PATHS = (
    "wandb.",
    "logging.",
    "mlflow.",
    "rich.print",
    "tqdm.",
    "loguru.",
    "warnings.warn",
    "sys.stdout.",
)
_NOT_STORES = {Kind.MODEL, Kind.OPTIMIZER, Kind.SCALER, Kind.SCHEDULER, Kind.NAME, Kind.SAMPLER, Kind.LOADER}
_LEAVES = (cst.Yield, cst.Await, cst.NamedExpr, cst.Break, cst.Continue, cst.Return, cst.Raise, cst.Del)


class Sinks:
    """Answers which statements only show or store values."""

    def __init__(self, roles: Roles, effects: Effects, reads: Reads) -> None:
        self.roles, self.effects, self.reads = roles, effects, reads

    def is_sink(self, statement: cst.CSTNode) -> bool:
        """Whether running a statement somewhat later changes nothing but the time of its output or store."""
        if isinstance(statement, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            return all(self._small(small) for small in statement.body)
        if isinstance(statement, cst.If):
            return self.calm(statement.test) and self._branches(statement)
        if isinstance(statement, cst.For):
            calm = self.calm(statement.iter) and statement.orelse is None
            return calm and not self.effects.is_step_loop(statement) and self._all(statement)
        if isinstance(statement, cst.With):
            paths = {self.roles.path(getattr(i.item, "func", None)) for i in statement.items}
            return paths <= {"torch.no_grad", "torch.inference_mode"} and self._all(statement)
        return False

    def is_lasting(self, statement: cst.With) -> bool:
        """Whether what stands in a ``with`` shows and stores the same behind it: torch's modes and timers.

        A file is closed there, and what is printed may go elsewhere.
        """
        return all(item.asname is None and self._changes_torch(item.item) for item in statement.items)

    def _changes_torch(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Call):
            path = self.roles.path(node.func)
            return path.startswith(("torch.", "contextlib.nullcontext", "apex."))
        if isinstance(node, cst.IfExp):
            return self._changes_torch(node.body) and self._changes_torch(node.orelse)
        bindings = self.roles.bindings(node) if isinstance(node, cst.Name) else ()
        return bool(bindings) and all(b.value is not None and self._changes_torch(b.value) for b in bindings)

    def _branches(self, statement: cst.If) -> bool:
        other = statement.orelse
        rest = other is None or (self._branches(other) if isinstance(other, cst.If) else self._all(other))
        return self._all(statement) and rest

    def _all(self, compound: cst.CSTNode) -> bool:
        return all(
            self.is_sink(s) if isinstance(s, cst.BaseStatement) else self._small(s) for s in body_of(compound)
        )

    def _small(self, small: cst.CSTNode) -> bool:
        if isinstance(small, cst.Pass):
            return True
        if isinstance(small, cst.Expr):
            return (
                isinstance(small.value, cst.Call)
                and self.calm(small.value, own=True)
                and (self.shows(small.value) or self._stores(small.value))
            )
        if isinstance(small, cst.Assign):
            places = all(self._storable(t.target) for t in small.targets)
            return places and self.calm(small.value)
        if isinstance(small, cst.AugAssign):
            return self._storable(small.target) and self.calm(small.value)
        return False

    def shows(self, call: cst.CSTNode) -> bool:
        """Whether a call shows its arguments: print, a logger, a writer, a bar, a printing helper."""
        if not isinstance(call, cst.Call):
            return False
        path, base = self.roles.path(call.func), receiver(call)
        if path == "builtins.print" or path.startswith(_SHOW_PATHS):
            return True
        if path:
            return False
        if base is not None and method(call) in LOG_METHODS:
            return not self.roles.kinds(base) & _NOT_STORES
        functions = [f.node for f in self.roles.facts(call.func) if f.kind is Kind.FUNCTION]
        return bool(functions) and all(isinstance(f, cst.FunctionDef) and self._prints(f) for f in functions)

    def only_shows(self, statement: cst.CSTNode) -> bool:
        """Whether a line does nothing but call what shows."""
        smalls = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
        return bool(smalls) and all(
            isinstance(s, cst.Expr) and self.shows(s.value) and self.calm(s.value, own=True) for s in smalls
        )

    def _prints(self, function: cst.FunctionDef) -> bool:
        """Whether a function of the program does nothing but print: no stores, no device work."""
        with self.roles.guarded(("prints", function)) as free:
            if not free:
                return False
            kinds = (cst.Global, cst.Nonlocal, cst.Yield, cst.Raise)
            nodes = list(walk(function.body))
            if any(isinstance(n, kinds) for n in nodes) or self.effects.of_function(function):
                return False
            targets = [t for n in nodes if isinstance(n, cst.Assign) for t in n.targets]
            if any(not isinstance(t.target, (cst.Name, cst.Tuple)) for t in targets):
                return False
            lines = [n for n in nodes if isinstance(n, cst.Expr)]
            shows = [n.value for n in lines if self.shows(n.value)]
            return bool(shows) and len(shows) == len([n for n in lines if isinstance(n.value, cst.Call)])

    def _stores(self, call: cst.Call) -> bool:
        base = receiver(call)
        if base is None or method(call) not in STORE_METHODS or self.roles.path(call.func):
            return False
        return not self.roles.kinds(base) & _NOT_STORES and root_of(base) is not None

    def _storable(self, target: cst.CSTNode) -> bool:
        if isinstance(target, cst.Name):
            return True
        if not isinstance(target, (cst.Subscript, cst.Attribute)) or root_of(target) is None:
            return False
        facts = self.roles.facts(target.value)
        if any(f.kind is Kind.TENSOR and f.detail != "host" for f in facts):
            return False
        return self._is_self(target) or not {f.kind for f in facts} & _NOT_STORES

    def _is_self(self, target: cst.CSTNode) -> bool:
        return isinstance(target, cst.Attribute) and getattr(target.value, "value", "") == "self"

    def calm(self, node: cst.CSTNode, *, own: bool = False) -> bool:
        """Whether an expression has no effect that must keep its moment, but for what is computed at once."""
        at_once = set(self.reads.computed(node))
        stack = [node]
        while stack:
            part = stack.pop()
            if isinstance(part, _LEAVES):
                return False
            if part in at_once:
                if any(isinstance(inner, _LEAVES) for inner in walk(part)):
                    return False
                continue
            if isinstance(part, cst.Call) and not (own and part is node) and not self._calm_call(part):
                return False
            stack.extend(children(part))
        return True

    def _calm_call(self, call: cst.Call) -> bool:
        if self.effects.of_call(call):
            return False
        for item in self.roles.facts(call.func):
            if isinstance(item.node, cst.FunctionDef) and not self._pure(item.node):
                return False
        return method(call) not in MUTATORS and self.roles.path(call.func) not in (
            "builtins.next",
            "builtins.input",
        )

    def _pure(self, function: cst.FunctionDef) -> bool:
        kinds = (cst.Global, cst.Nonlocal, cst.Yield, cst.AugAssign)
        for node in walk(function.body):
            if isinstance(node, kinds) and not isinstance(getattr(node, "target", None), cst.Name):
                return False
            if isinstance(node, cst.AssignTarget) and isinstance(node.target, (cst.Attribute, cst.Subscript)):
                return False
            if isinstance(node, cst.Call) and _in_place(node):
                return False
        return self.effects.of_function(function) is Effect.NONE


def _in_place(call: cst.Call) -> bool:
    """Whether a call is torch's for an operation in place: ``p.grad.mul_(scale)``, ``nn.init.zeros_(w)``."""
    name = method(call)
    return name.endswith("_") and not name.endswith("__")


def root_of(node: cst.CSTNode) -> str | None:
    """What a place belongs to: ``losses`` of ``losses[k]``, ``self.history`` of ``self.history.x``."""
    inner: list[str] = []
    while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)):
        if isinstance(node, cst.Attribute):
            inner.append(node.attr.value)
            node = node.value
        elif isinstance(node, cst.Subscript):
            node = node.value
        else:
            node = node.func
    if not isinstance(node, cst.Name):
        return None
    return f"self.{inner[-1]}" if node.value == "self" and inner else node.value


def stored_roots(statement: cst.CSTNode) -> set[str]:
    """The containers and objects, not plain names, that a sink stores something to."""
    found: set[str] = set()
    for node in walk(statement):
        place: cst.CSTNode | None = None
        if isinstance(node, (cst.AssignTarget, cst.AugAssign)) and not isinstance(node.target, cst.Name):
            place = node.target
        elif isinstance(node, cst.Call) and method(node) in STORE_METHODS:
            place = receiver(node)
        root = root_of(place) if place is not None else None
        if root is not None:
            found.add(root)
    return found


def bound_names(statement: cst.CSTNode) -> set[str]:
    """The plain names that a statement binds, those of comprehensions left out."""
    found: set[str] = set()
    for node in walk(statement, into_functions=False):
        targets: list[cst.CSTNode] = []
        if isinstance(node, (cst.AssignTarget, cst.AugAssign, cst.For)):
            targets = [node.target]
        for target in targets:
            found |= {n.value for n in targeted(target)}
    return found


def targeted(target: cst.CSTNode) -> Iterator[cst.Name]:
    """The plain names of what is assigned to."""
    if isinstance(target, cst.Name):
        yield target
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from targeted(element.value)
