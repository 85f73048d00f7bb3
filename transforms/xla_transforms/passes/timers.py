"""Timers: CUDA events that measure time become readings of the host's clock around a waiting barrier.

``start.record()`` becomes ``start = time.perf_counter()`` and ``start.elapsed_time(end)``, in milliseconds,
``(end - start) * 1000``. A reading that ends a measurement comes behind ``torch_xla.sync(wait=True)``:
without it the time of tracing alone would be measured.
Source: pytorch v2.9, ``torch/cuda/streams.py``, ``Event``; pytorch/xla v2.9.0, ``torch_xla.py``, ``sync``.
"""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles import Kind
from xla_transforms.scopes import How
from xla_transforms.statements import bare, live_calls, migrating, path_of, sole_target, write_wait
from xla_transforms.tree import method, receiver, same

TIMER = Rule(
    "XLA231",
    "event-timer",
    "A CUDA event used as a timer becomes a reading of the host's clock.",
    "torch.cuda.Event().record() raises without CUDA; XLA runs at a barrier, the clock is read behind it.",
)
SPLIT = Rule(
    "XLA232",
    "timer-barrier",
    "A measurement ends at a barrier of its own.",
    "What is measured has to be run; every barrier with work before it is an execution.",
    safety=Safety.DISPLAY,
)
LEFT = Rule(
    "XLA233",
    "event-left",
    "A CUDA event is used in a way that is not understood and is left.",
    "torch.cuda.Event().record() raises without CUDA.",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (TIMER, SPLIT, LEFT)

_METHODS = frozenset({"record", "elapsed_time", "synchronize", "wait", "query"})
_WAITS = frozenset({"torch.cuda.synchronize", "torch.accelerator.synchronize"})


def run(context: Context) -> None:
    if not migrating(context):
        return
    made = [call for call, path in live_calls(context) if path == "torch.cuda.Event"]
    if made:
        events = Events(context)
        if (odd := events.not_understood()) is None:
            with context.plan.together("timers"):
                events.convert(made)
            return
        wait = context.target.wait.shown()
        advice = f"measure with time.perf_counter() behind {wait}"
        for call in made:
            line = context.program.line_of(odd, context.index)
            message = f"this event stays: line {line} uses it in a way that is not understood"
            context.plan.report(LEFT, call, message, advice)


class Events:
    """The CUDA events of one module."""

    def __init__(self, context: Context) -> None:
        self.context, self.index, self.roles = context, context.index, context.roles

    def _is_event(self, node: cst.CSTNode | None) -> bool:
        return self.roles.is_a(node, Kind.EVENT)

    @cached_property
    def calls(self) -> list[cst.Call]:
        """The calls of events' methods."""
        found = [c for c in self.index.all(cst.Call) if isinstance(c, cst.Call) and method(c) in _METHODS]
        return [c for c in found if self._is_event(receiver(c))]

    @cached_property
    def ends(self) -> list[cst.BaseExpression]:
        """The events at which a measurement ends, as they are written."""
        return [c.args[0].value for c in self.calls if method(c) == "elapsed_time" and c.args]

    def not_understood(self) -> cst.CSTNode | None:
        """The first use of an event that is more than making, recording and measuring it."""
        for call in self.calls:
            if method(call) in ("record", "synchronize", "wait") and bare(self.context, call) is None:
                return call
            if method(call) == "record" and not self._assignable(receiver(call)):
                return call
        kinds = (cst.Name, cst.Attribute, cst.Subscript)
        return next((n for n in self.index.all(*kinds) if self._is_event(n) and not self._plain(n)), None)

    def _assignable(self, place: cst.CSTNode | None) -> bool:
        """Whether ``place = time`` would be seen by whoever reads it."""
        if not isinstance(place, cst.Name):
            return isinstance(place, (cst.Attribute, cst.Subscript))
        scope = self.index.scope_of(place)
        bindings = self.roles.bindings(place)
        return scope.owner(place.value) is scope and all(b.how is How.ASSIGN for b in bindings)

    def _plain(self, node: cst.CSTNode) -> bool:
        parent = self.index.parent(node)
        if isinstance(parent, cst.Attribute):
            return parent.attr is node or self.index.parent(parent) in self.calls
        if isinstance(parent, cst.Arg):
            return self.index.parent(parent) in self.calls
        if isinstance(parent, (cst.Element, cst.Tuple, cst.List)):
            parent = self._around(parent)
        if isinstance(parent, (cst.Assign, cst.AnnAssign)):
            return False
        return isinstance(parent, (cst.AssignTarget, cst.For, cst.CompFor)) and node is not getattr(
            parent, "iter", None
        )

    def _around(self, node: cst.CSTNode) -> cst.CSTNode | None:
        parent: cst.CSTNode | None = node
        while isinstance(parent, (cst.Element, cst.Tuple, cst.List)):
            parent = self.index.parent(parent)
        return parent

    def convert(self, made: list[cst.Call]) -> None:
        for call in self.calls:
            if self.context.plan.free(call):
                self._convert(call)
        for call in made:
            self._unmake(call)

    def _unmake(self, call: cst.Call) -> None:
        change = self.context.plan.change(TIMER, call, "the clock needs no event")
        statement = self.index.parent(call)
        target = sole_target(statement)
        function = self.index.function_of(call)
        near = [c for c in self.calls if method(c) == "record" and self.index.function_of(c) is function]
        simple = isinstance(target, (cst.Name, cst.Attribute)) and isinstance(statement, cst.Assign)
        if simple and any(same(target, receiver(c)) for c in near) and statement is not None:
            change.remove(statement)
        else:
            change.replace(call, "0.0")

    def _convert(self, call: cst.Call) -> None:
        name, base = method(call), receiver(call)
        assert base is not None
        if name == "record":
            self._record(call, base)
            return
        if name == "elapsed_time" and call.args:
            self._elapsed(call, base, call.args[0].value)
            return
        change = self.context.plan.change(TIMER, call, "the clock needs no event")
        if name == "query":
            change.replace(call, "True")
        elif name == "synchronize":
            write_wait(self.context, change, call)
        elif (statement := bare(self.context, call)) is not None:
            change.remove(statement)

    def _elapsed(self, call: cst.Call, start: cst.BaseExpression, end: cst.BaseExpression) -> None:
        change = self.context.plan.change(TIMER, call, "the host's clock measures, in milliseconds")
        parent = self.index.parent(call)
        tight = isinstance(parent, (cst.BinaryOperation, cst.UnaryOperation, cst.Attribute))
        if isinstance(parent, cst.BinaryOperation) and parent.left is call:
            tight = isinstance(parent.operator, cst.Power)
        change.replace(call, "(({0} - {1}) * 1000)" if tight else "({0} - {1}) * 1000", end, start)

    def _record(self, call: cst.Call, base: cst.BaseExpression) -> None:
        change = self.context.plan.change(TIMER, call, "the host's clock is read")
        reading = f"{{0}} = {change.use('time')}.perf_counter()"
        statement = bare(self.context, call)
        assert statement is not None
        if not any(same(base, end) for end in self.ends) or self._waits(call, -1) is not None:
            change.replace(call, reading, base)
            return
        wait = self._waits(call, 1)
        text = self.index.source.code(base)
        if wait is not None:
            change.remove(statement)
            change.after(wait, reading.replace("{0}", text))
            return
        change.before(statement, *change.spell(self.context.target.wait).split("\n"))
        change.replace(call, reading, base)
        message = "what is measured runs at a barrier of its own"
        advice = "take the measurement out once it has served"
        self.context.plan.report(SPLIT, call, message, advice, fixed=True)

    def _waits(self, call: cst.Call, step: int) -> cst.CSTNode | None:
        """The statement beside a ``record()`` that waits for the device; other records may lie between."""
        line = self.index.statement_of(call)
        block = self.index.parent(line) if line is not None else None
        body: list[cst.CSTNode] = list(getattr(block, "body", ()))
        position = next((i for i, item in enumerate(body) if item is line), -1)
        while 0 <= (position := position + step) < len(body):
            beside = self._only_call(body[position])
            if beside is None:
                return None
            if path_of(self.context, beside.func) in _WAITS:
                return body[position]
            if beside in self.calls and method(beside) == "synchronize":
                return body[position]
            if beside not in self.calls or method(beside) != "record":
                return None
        return None

    def _only_call(self, line: cst.CSTNode) -> cst.Call | None:
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            return None
        small = line.body[0]
        return small.value if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) else None
