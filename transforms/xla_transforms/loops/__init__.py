"""What each loop does: which loops take a step an iteration, what drives them, where their barrier is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst

from xla_transforms.loops.batches import BatchUse, use_of_batches
from xla_transforms.loops.effects import Effect, Effects
from xla_transforms.loops.reads import Reads
from xla_transforms.program import Program
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.generators import only_iterates
from xla_transforms.roles.structure import loaders_behind
from xla_transforms.scopes import ModuleIndex
from xla_transforms.tree import LOOPS, body_of, children, method, string_value, walk

__all__ = ["Effect", "Loop", "Loops"]

_SYNCHRONIZE = ("torch.cuda.synchronize", "torch.accelerator.synchronize")


@dataclass(eq=False)
class Loop:
    """A loop whose iterations are steps.

    ``loader`` is the expression of the DataLoader that drives it, ``batches`` how what it gives is used;
    ``wrapped`` tells that an MpDeviceLoader drives it after the migration, ``reason`` why not.
    """

    node: cst.For | cst.While
    effect: Effect
    loader: cst.BaseExpression | None = None
    batches: BatchUse = field(default_factory=BatchUse)
    wrapped: bool = False
    reason: str = ""

    @property
    def body(self) -> list[cst.CSTNode]:
        return body_of(self.node)


class Loops:
    """The step loops of one module. ``excluded`` tells which loops may not be driven by a device loader."""

    def __init__(self, roles: Roles, index: ModuleIndex) -> None:
        self.roles = roles
        self.index = index
        self.effects = Effects(roles)
        self.reads = Reads(roles)
        self.fenced: set[cst.CSTNode] = set()  # the statements that a pass puts a barrier in front of

    @property
    def program(self) -> Program:
        return self.roles.program

    @cached_property
    def all(self) -> list[Loop]:
        """Every step loop, in source order, outer before inner."""
        found = [self._loop(node) for node in self.index.all(*LOOPS) if self._counts(node)]
        return sorted(found, key=lambda loop: self.index.place(loop.node))

    def _counts(self, node: cst.CSTNode) -> bool:
        return self.effects.is_step_loop(node) and not self.roles.dead(node)

    def _loop(self, node: cst.CSTNode) -> Loop:
        assert isinstance(node, (cst.For, cst.While))
        loop = Loop(node, self.effects.of_loop(node))
        if isinstance(node, cst.For):
            loaders = loaders_behind(self.roles, node.iter)
            if len(loaders) == 1:
                loop.loader = loaders[0]
                loop.batches = use_of_batches(self.roles, node)
            elif loaders:
                loop.reason = "it draws from several loaders at once"
        self._decide(loop)
        return loop

    def _decide(self, loop: Loop) -> None:
        if loop.loader is None:
            return
        if {f.kind for f in self.roles.facts(loop.loader)} - {Kind.NONE} != {Kind.LOADER}:
            loop.reason = "not everything that may drive it is a DataLoader"
        elif (asking := self._asks_more(loop)) is not None:
            loop.reason = f"{self.index.source.code(asking.func)}() asks the loader for more than batches"
        elif loop.batches.blocker is not None:
            line = self.program.line_of(loop.batches.blocker, self.index)
            loop.reason = f"line {line} uses the batch on the host"
        elif not loop.batches.transfers:
            loop.reason = "its batches are never moved to the device"
        else:
            loop.wrapped = self.synchronized(loop) is None

    def _asks_more(self, loop: Loop) -> cst.Call | None:
        """The call around the loader that needs it as it was made."""
        inside = walk(loop.node.iter) if isinstance(loop.node, cst.For) else ()
        calls = (node for node in inside if isinstance(node, cst.Call))
        return next((call for call in calls if not only_iterates(self.roles, call)), None)

    def synchronized(self, loop: Loop) -> cst.Call | None:
        """The script's own ``synchronize()`` that every iteration passes, if there is one."""
        if not self.program.mentions("synchronize"):
            return None
        for statement in reversed(loop.body):
            call = self._wait(statement)
            if call is not None:
                return call
        return None

    def _wait(self, statement: cst.CSTNode) -> cst.Call | None:
        """The ``synchronize()`` that runs whenever a statement is reached."""
        for part in reversed(self._always(statement)):
            for node in walk(part):
                if isinstance(node, cst.Call) and self.roles.path(node.func) in _SYNCHRONIZE:
                    return node
        return None

    def _always(self, statement: cst.CSTNode) -> list[cst.CSTNode]:
        """The simple statements that run whenever this one is reached."""
        if isinstance(statement, cst.If) and self._on_device(statement.test):
            return [s for inner in body_of(statement) for s in self._always(inner)]
        return [statement] if isinstance(statement, cst.SimpleStatementLine) else []

    def _on_device(self, test: cst.BaseExpression) -> bool:
        """Whether a condition holds wherever the work is on the device: ``device.type == "cuda"``."""
        if self.roles.fold(test) is True:
            return True
        if isinstance(test, cst.Call) and method(test) == "startswith" and test.args:
            return string_value(test.args[0].value) == "cuda"
        if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
            return False
        target = test.comparisons[0]
        word = target.comparator if isinstance(target.operator, cst.Equal) else test.left
        return string_value(word) == "cuda" and isinstance(target.operator, (cst.Equal, cst.In))

    def of(self, node: cst.CSTNode) -> Loop | None:
        """The step loop in whose iteration a node stands (within the same function)."""
        for parent in self.index.ancestors(node):
            if isinstance(parent, (cst.FunctionDef, cst.Lambda)):
                return None
            if isinstance(parent, LOOPS):
                found = next((loop for loop in self.all if loop.node is parent), None)
                if found is not None:
                    return found
        return None

    @cached_property
    def _needless(self) -> set[cst.CSTNode]:
        return {call for loop in self.all if loop.wrapped for call in self.own_transfers(loop)}

    def own_transfers(self, loop: Loop) -> list[cst.Call]:
        """The transfers that stand in the loop itself (those in functions it calls stay)."""
        return [c for c in loop.batches.transfers if self._inside(c, loop.node)]

    def _inside(self, node: cst.CSTNode, loop: cst.CSTNode) -> bool:
        here = self.roles.index(node) is self.index
        return here and self.index.within(node, loop)

    def needless(self, call: cst.CSTNode) -> bool:
        """Whether a transfer goes away because a device loader brings its batch to the device."""
        return call in self._needless

    def barrier_after(self, loop: Loop) -> cst.CSTNode | None:
        """The last statement of an iteration that gives the device work: the explicit barrier goes behind it.

        What follows only looks at results (prints, logs, counters). ``None`` for loops that a device
        loader drives, and for those with a ``synchronize()`` of their own.
        """
        if loop.wrapped or self.synchronized(loop) is not None:
            return None
        working = [s for s in loop.body if self._works(s)]
        return working[-1] if working else None

    def _works(self, statement: cst.CSTNode) -> bool:
        if self.effects.of(statement) or _holds_step_loop(self.effects, statement):
            return True
        return not isinstance(statement, cst.If) and next(self.reads.computed(statement), None) is not None

    def exits(self, loop: Loop, kind: type[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        """The statements of a kind that end an iteration early, where they come behind device work."""
        first = self._first_work(loop)
        for node in self._own(loop.node, within_loops=kind is cst.Return):
            if isinstance(node, kind) and self.index.source.offsets(node)[0] > first:
                yield node

    def settled(self, leaving: cst.CSTNode) -> bool:
        """Whether a barrier is passed on the way to an early exit, and no device work behind it."""
        for statement in self._on_the_way(leaving):
            if self._wait(statement) is not None:
                return True
            if not isinstance(statement, cst.If) and self.effects.of(statement):
                return False
            if statement in self.fenced:
                return True
        return False

    def pending(self, loop: Loop, node: cst.CSTNode) -> bool:
        """Whether device work of an iteration waits for a barrier where a node is reached."""
        worked = self.index.source.offsets(node)[0] > self._first_work(loop)
        return worked and not self.behind_barrier(loop, node) and not self.settled(node)

    def behind_barrier(self, loop: Loop, node: cst.CSTNode) -> bool:
        """Whether the explicit barrier of an iteration comes before a node."""
        anchor, offsets = self.barrier_after(loop), self.index.source.offsets
        return anchor is not None and offsets(node)[0] >= offsets(anchor)[1]

    def _on_the_way(self, leaving: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The statements in front of one, and those around it, from the last to the loop's first."""
        line = self.index.statement_of(leaving)
        while line is not None and not isinstance(line, (*LOOPS, cst.FunctionDef)):
            yield line
            block = self.index.parent(line)
            before = body_of(block) if block is not None else []
            yield from reversed(before[: next((i for i, s in enumerate(before) if s is line), 0)])
            line = self.index.statement_of(block) if block is not None else None

    def _own(self, loop: cst.CSTNode, *, within_loops: bool) -> Iterator[cst.CSTNode]:
        """The nodes of a loop's body: not those of functions, nor of inner (step) loops."""
        stack = list(reversed(children(loop.body)))  # type: ignore[attr-defined]
        while stack:
            node = stack.pop()
            yield node
            if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
                continue
            if isinstance(node, LOOPS) and (not within_loops or self.effects.is_step_loop(node)):
                continue
            stack.extend(reversed(children(node)))

    def _first_work(self, loop: Loop) -> int:
        starts = [
            self.index.source.offsets(call)[0]
            for call in self.effects.calls(loop.node.body)
            if self.effects.of_call(call)
        ]
        return min(starts, default=self.index.source.offsets(loop.node)[0])


def _holds_step_loop(effects: Effects, statement: cst.CSTNode) -> bool:
    return any(isinstance(n, LOOPS) and effects.is_step_loop(n) for n in walk(statement))
