"""Optimizer steps out of sight: taken by what is handed the optimizer and is not in the project.

Whether such a call steps at all cannot be read. It may where nothing in sight steps the optimizer that it
is handed; then nothing can be written between its backward pass and its step, either.
"""

from __future__ import annotations

import sys
from functools import cached_property

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.facts import of_kind
from xla_transforms.tree import FUNCTIONS, LOOPS, has_star, method, receiver, value_of

# What timm's scaler does is known: pytorch-image-models v1.0.9, timm/utils/cuda.py, ``NativeScaler``.
TIMM_SCALERS = frozenset({"timm.utils.NativeScaler", "timm.utils.cuda.NativeScaler"})
_OUTSIDE = frozenset({Kind.UNKNOWN, Kind.NAME})
_NO_STEPS = frozenset({"torch", "torch_xla", "torchvision", "builtins", *sys.stdlib_module_names})


class HiddenSteps:
    """Answers for one program."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles

    @staticmethod
    def of(roles: Roles) -> HiddenSteps:
        """Those of a program, the same whoever asks."""
        return roles.remembered("hidden steps", lambda: HiddenSteps(roles))

    @cached_property
    def stepped(self) -> frozenset[cst.CSTNode | None]:
        """The calls that make the optimizers which are stepped in sight; ``None`` for one made elsewhere."""
        found: set[cst.CSTNode | None] = set()
        for call in self.roles.program.calls.get("step", ()):
            base = receiver(call)
            if base is None or method(call) != "step":
                continue
            if Kind.SCALER in self.roles.kinds(base):
                base = value_of(call, "optimizer", 0) or base
            found |= {fact.node for fact in of_kind(self.roles.facts(base), Kind.OPTIMIZER)}
        return frozenset(found)

    @cached_property
    def calls(self) -> list[cst.Call]:
        """The calls of a program that may step an optimizer out of sight, in the order of its modules."""
        modules = self.roles.program.modules.values()
        calls = [c for index in modules for c in index.all(cst.Call) if isinstance(c, cst.Call)]
        return [call for call in calls if self.takes(call) and not self.roles.dead(call)]

    def takes(self, call: cst.Call) -> bool:
        """Whether a call in a loop may step an optimizer that it is handed."""
        if not call.args or not self._in_loop(call) or not self._outside(call):
            return False
        return any(self._unstepped(arg.value) for arg in call.args)

    def trains(self, call: cst.Call) -> bool:
        """Whether such a call is also handed a loss: it is the backward pass and the step of an iteration."""
        return self.takes(call) and any(Kind.TENSOR in self.roles.kinds(arg.value) for arg in call.args)

    def known(self, call: cst.Call) -> bool:
        """Whether a call of timm's scaler stands by itself: what it does can be written in its place."""
        index = self.roles.index(call)
        expression = index.parent(call)
        line = index.parent(expression) if isinstance(expression, cst.Expr) else None
        alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
        facts = [fact for fact in self.roles.facts(call.func) if fact.kind is not Kind.NONE]
        made = bool(facts) and all(fact.detail in TIMM_SCALERS and fact.node is not None for fact in facts)
        return alone and made and not has_star(call) and value_of(call, "optimizer", 1) is not None

    def origin(self, call: cst.Call) -> str:
        """The dotted path of what is called, or of what made it; empty where that is not known either."""
        return next((f.detail for f in self.roles.facts(call.func) if f.kind in _OUTSIDE and f.detail), "")

    def _in_loop(self, call: cst.Call) -> bool:
        for parent in self.roles.index(call).ancestors(call):
            if type(parent) in FUNCTIONS:
                return False
            if type(parent) in LOOPS:
                return True
        return False

    def _outside(self, call: cst.Call) -> bool:
        """Whether what is called is not in the project, and may be something that steps optimizers."""
        facts = self.roles.facts(call.func)
        if any(f.kind not in _OUTSIDE or f.detail.partition(".")[0] in _NO_STEPS for f in facts):
            return False
        return self.roles.kinds(receiver(call)) <= _OUTSIDE

    def _unstepped(self, value: cst.BaseExpression) -> bool:
        facts = self.roles.facts(value)
        made = {fact.node for fact in of_kind(facts, Kind.OPTIMIZER)}
        if not made or Kind.UNKNOWN in {fact.kind for fact in facts}:
            return False
        return not self.stepped if None in made else None not in self.stepped and not made & self.stepped
