"""What a piece of code does to the device: forward, backward, step. Calls into the program are followed."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Flag, auto

import libcst as cst

from xla_transforms.loops.hidden import HiddenSteps
from xla_transforms.roles import Kind, Roles, classes
from xla_transforms.roles.calls import sites
from xla_transforms.roles.structure import loaders_behind
from xla_transforms.tree import CODE_OF_ITS_OWN, LOOPS, method, receiver, same, walk

_LOOPS = set(LOOPS)
_APART = (*CODE_OF_ITS_OWN, *LOOPS)
_CLIPS = "torch.nn.utils.clip_grad"
_DEPTH = 3  # calls that are followed, one in the other
_SAVED = {"zero_grad", "unscale_", "update", "scale"}


class Effect(Flag):
    """The device work of a piece of code."""

    NONE = 0
    FORWARD = auto()
    BACKWARD = auto()
    STEP = auto()
    OTHER = auto()  # zero_grad, scaler and clipping calls: work that belongs to a step


_ASKED = frozenset({
    "parameters", "named_parameters", "buffers", "numel", "size", "dim", "format", "items", "keys", "values",
    "append", "extend",
})  # fmt: skip
_WITHOUT_GRADIENT = frozenset({"torch.no_grad", "torch.inference_mode"})


class Effects:
    """Answers, with memory, what statements and functions do."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self.hidden = HiddenSteps.of(roles)

    def of_call(self, call: cst.Call) -> Effect:
        """What one call does by itself, its arguments not counted."""
        return self.roles.remembered(("does", id(call)), lambda: self._of_call(call))

    def _of_call(self, call: cst.Call) -> Effect:
        roles, name = self.roles, method(call)
        base = receiver(call)
        if name == "backward" and base is not None and not roles.path(call.func).startswith("builtins"):
            return Effect.BACKWARD
        if name in ("step", *_SAVED) and base is not None:
            found = self._stateful(base, name)
            if found:
                return found
        path = roles.path(call.func)
        if path.startswith(_CLIPS) or path == "torch.autograd.grad":
            return Effect.OTHER if "clip" in path else Effect.BACKWARD
        if self.hidden.trains(call):
            return Effect.BACKWARD | Effect.STEP
        if self._generates(call):
            return Effect.FORWARD
        return self._called(call)

    def _stateful(self, base: cst.BaseExpression, name: str) -> Effect:
        kinds = self.roles.kinds(base)
        if Kind.OPTIMIZER in kinds or Kind.SCALER in kinds:
            return Effect.STEP if name == "step" else Effect.OTHER
        if kinds <= {Kind.NAME} and name in ("step", "zero_grad"):
            return Effect.OTHER  # whatever it is, the barrier comes behind it
        return Effect.OTHER if Kind.MODEL in kinds and name == "zero_grad" else Effect.NONE

    def _called(self, call: cst.Call) -> Effect:
        found = Effect.NONE
        for item in self.roles.facts(call.func):
            if item.kind is Kind.MODEL and not self._inside_model(call):
                found |= Effect.FORWARD
            elif item.kind is Kind.INSTANCE and isinstance(item.node, cst.ClassDef):
                run = classes.find_method(self.roles, item.node, "__call__")
                found |= self.of_function(run) if run is not None else Effect.NONE
            elif item.kind is Kind.FUNCTION and item.node is not None:
                if not self._method_of_model(item.node):
                    found |= self.of_function(item.node)
                elif item.detail == "bound" and not self._inside_model(call):
                    found |= Effect.FORWARD if self._computes(item.node) else Effect.NONE
        return found

    def _computes(self, function: cst.CSTNode) -> bool:
        """Whether a model's method may compute with its layers: any call that does not only ask about it."""
        body = function.body if isinstance(function, cst.FunctionDef) else function
        with self.roles.guarded(("computes", function)) as free:
            return free and not all(map(self._only_asks, self.calls(body)))

    def _only_asks(self, call: cst.Call) -> bool:
        """Whether a call counts, lists or prints: of a model only what its parameters are."""
        if method(call) in _ASKED or self.roles.path(call.func).startswith(("builtins.", "math.", "time.")):
            return True
        known = [f for f in self.roles.facts(call.func) if f.kind is Kind.FUNCTION and f.node is not None]
        return bool(known) and not any(self._computes(f.node) for f in known if f.node is not None)

    def _method_of_model(self, function: cst.CSTNode) -> bool:
        owner = self.roles.index(function).class_of(function)
        return isinstance(owner, cst.ClassDef) and classes.role_of(self.roles, owner) is Kind.MODEL

    def _inside_model(self, node: cst.CSTNode) -> bool:
        """Whether a node stands in a method of a model: its calls are one forward pass, not several."""
        return self._method_of_model(node)

    def _generates(self, call: cst.Call) -> bool:
        """Whether a model calls itself as a whole where nothing is learnt: a token, a step of sampling."""
        if not isinstance(call.func, cst.Name) or not classes.is_self(self.roles, call.func):
            return False
        function = self.roles.index(call).function_of(call)
        return function is not None and self._method_of_model(function) and self._learns_nothing(function)

    def _learns_nothing(self, function: cst.FunctionDef) -> bool:
        paths = (self.roles.path(getattr(d.decorator, "func", d.decorator)) for d in function.decorators)
        return any(path in _WITHOUT_GRADIENT for path in paths)

    def of_function(self, function: cst.CSTNode) -> Effect:
        """What calling a function does outside its own step loops."""
        body = getattr(function, "body", None)
        if body is None:
            return Effect.NONE
        return self.roles.asked(("effect", id(function)), lambda: self.of(body), Effect.NONE)

    def of(self, node: cst.CSTNode) -> Effect:
        """What a statement (or block) does, the work of step loops inside it left out."""
        found = Effect.NONE
        for call in self.calls(node):
            found |= self.of_call(call)
        return found

    def uses_gradients(self, node: cst.CSTNode) -> bool:
        """Whether code clips or reads gradients, itself or in functions of the program that it calls."""
        for inner in walk(node, into_functions=False):
            if isinstance(inner, cst.Attribute) and self._reads_gradient(inner):
                return True
            if isinstance(inner, cst.Call) and self._clips(inner):
                return True
        return False

    def copies_gradients(self, node: cst.CSTNode, depth: int = 0) -> bool:
        """Whether code gives parameters gradients of others (master weights), itself or in what it calls."""
        for inner in walk(node, into_functions=False):
            if isinstance(inner, cst.Assign) and any(_copied(t.target, inner.value) for t in inner.targets):
                return True
            if method(inner) == "copy_" and isinstance(inner, cst.Call) and inner.args:
                held = next((n for n in walk(inner.func) if _is_gradient(n)), None)
                if held is not None and _copied(held, inner.args[0].value):
                    return True
            if isinstance(inner, cst.Call) and depth < _DEPTH:
                functions = [f.node for f in self.roles.facts(inner.func) if f.kind is Kind.FUNCTION]
                bodies = [f.body for f in functions if isinstance(f, cst.FunctionDef)]
                if any(self.copies_gradients(body, depth + 1) for body in bodies):
                    return True
        return False

    def _reads_gradient(self, node: cst.Attribute) -> bool:
        written = isinstance(self.roles.index(node).parent(node), cst.AssignTarget)
        return node.attr.value == "grad" and not written and not self.roles.path(node)

    def _clips(self, call: cst.Call) -> bool:
        if self.roles.path(call.func).startswith(_CLIPS):
            return True
        functions = [f.node for f in self.roles.facts(call.func) if f.kind is Kind.FUNCTION]
        return any(self._uses_within(f) for f in functions if isinstance(f, cst.FunctionDef))

    def _uses_within(self, function: cst.FunctionDef) -> bool:
        key = "uses gradients", id(function)
        return self.roles.asked(key, lambda: self.uses_gradients(function.body), False)

    def calls(self, node: cst.CSTNode) -> Iterator[cst.Call]:
        """The calls that belong to a piece of code itself: not those of step loops and functions in it.

        The body of a function defined here and handed on (a closure for LBFGS) counts as code of its own.
        """
        index, behind = self.roles.index(node), -1
        for inner in index.inside(node, cst.Call, *_APART):
            if index.number(inner) <= behind:
                continue
            if type(inner) is cst.Call:
                yield inner
            elif inner is not node and (type(inner) not in _LOOPS or self.is_step_loop(inner)):
                behind = index.last(inner)

    def is_step_loop(self, loop: cst.CSTNode) -> bool:
        """Whether each iteration of a loop is a step of training or evaluation of its own."""
        return bool(self.of_loop(loop))

    def of_loop(self, loop: cst.CSTNode) -> Effect:
        """The work of one iteration if that makes the loop a step loop, else nothing."""
        return self.roles.asked(("effect", id(loop)), lambda: self._judge(loop), Effect.NONE)

    def _judge(self, loop: cst.CSTNode) -> Effect:
        body = loop.body  # type: ignore[attr-defined]
        found = self.of(body)
        if self._inside_model(loop) and not found & Effect.STEP:
            return found if any(map(self._generates, self.calls(body))) else Effect.NONE
        for inner in self._closures(body):
            found |= self.of(inner.body)
        working = Effect.FORWARD | Effect.BACKWARD
        if found & Effect.STEP and self._accumulates(body):
            return found
        if not found & working or (not found & Effect.BACKWARD and self._holds_step_loops(body)):
            return Effect.NONE
        if not found & Effect.BACKWARD and self._part_of_a_step(loop):
            return Effect.NONE
        return found

    def _part_of_a_step(self, loop: cst.CSTNode) -> bool:
        """Whether a loop that only computes forward belongs to the step around it: time steps, layers."""
        if isinstance(loop, cst.For) and loaders_behind(self.roles, loop.iter):
            return False
        kinds = (cst.For, cst.While, cst.FunctionDef)
        outer = next((a for a in self.roles.index(loop).ancestors(loop) if isinstance(a, kinds)), None)
        if isinstance(outer, cst.FunctionDef) and self._computes_loss(outer):
            return True
        return outer is not None and bool(self.of(outer.body) & Effect.BACKWARD)

    def _computes_loss(self, function: cst.FunctionDef) -> bool:
        """Whether each step of some training calls a function, as a part of its forward pass."""
        if self._learns_nothing(function):
            return False
        return any(self._in_a_step(site) for site, _ in sites(self.roles, function))

    def _in_a_step(self, call: cst.Call) -> bool:
        for outer in self.roles.index(call).ancestors(call):
            if isinstance(outer, (cst.If, cst.FunctionDef, cst.Lambda)):
                return False
            if isinstance(outer, (cst.For, cst.While)):
                return bool(self.of(outer.body) & Effect.BACKWARD)
        return False

    def _holds_step_loops(self, node: cst.CSTNode) -> bool:
        """Whether step loops run inside: a loop over epochs that also samples once is no step loop."""
        return any(map(self.is_step_loop, self._loops_within(node)))

    def _accumulates(self, body: cst.CSTNode) -> bool:
        """Whether a loop inside goes through micro-batches, whose gradients the step here uses."""
        return any(self.of_loop(loop) & Effect.BACKWARD for loop in self._loops_within(body))

    def _loops_within(self, node: cst.CSTNode, depth: int = 0) -> Iterator[cst.CSTNode]:
        """The loops of a piece of code, and of the functions of the program that it calls."""
        for inner in walk(node, into_functions=False):
            if type(inner) in _LOOPS:
                yield inner
            if isinstance(inner, cst.Call) and depth < _DEPTH:
                functions = [f.node for f in self.roles.facts(inner.func) if f.kind is Kind.FUNCTION]
                for function in (f for f in functions if isinstance(f, cst.FunctionDef)):
                    yield from self._loops_within(function.body, depth + 1)

    def _closures(self, body: cst.CSTNode) -> list[cst.FunctionDef]:
        """Functions defined in a loop's own block and handed to an optimizer's step."""
        statements = getattr(body, "body", ())
        return [s for s in statements if isinstance(s, cst.FunctionDef)]


def _copied(target: cst.CSTNode, value: cst.BaseExpression) -> bool:
    """``master.grad = model.grad``: a gradient that is not made of the parameter's own."""
    if not _is_gradient(target):
        return False
    own = (isinstance(n, cst.Attribute) and same(n, target) for n in walk(value))
    return getattr(value, "value", "") != "None" and not any(own)


def _is_gradient(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value == "grad"
