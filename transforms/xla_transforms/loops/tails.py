"""What a function that takes a whole step, or ends one, does behind it: ``return {"loss": loss.item()}``.

Behind a barrier such a read costs a transfer, before it an execution of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from xla_transforms.loops import Effect, Loops
from xla_transforms.tree import LOOPS, walk


@dataclass(frozen=True)
class Tail:
    """The reads behind a function's step. ``barriers`` are the statements before which the step is to
    run; ``always`` those of them that every call reaches; ``free`` the reads that then cost nothing."""

    barriers: list[cst.CSTNode] = field(default_factory=list)
    always: list[cst.CSTNode] = field(default_factory=list)
    free: set[cst.CSTNode] = field(default_factory=set)


def tail_of(loops: Loops, function: cst.FunctionDef, *, last: bool) -> Tail:
    """The tail of a function; an empty one where the function takes no step, or loops over steps.

    ``last`` tells that no iteration that calls it has work behind the call: then a backward pass is enough.
    """
    found = Tail()
    wanted = Effect.STEP | Effect.BACKWARD if last else Effect.STEP
    if not loops.effects.of_function(function) & wanted or _loops_over_steps(loops, function):
        return found
    for statement in _behind(loops, function):
        if found.always:
            _spare(loops, statement, found)
        elif isinstance(statement, cst.If) and not loops.reads.any_within(statement.test):
            _under_condition(loops, statement, found)
        elif _reads_plainly(loops, statement):
            found.barriers.append(statement)
            found.always.append(statement)
            _spare(loops, statement, found)
    return found


def _loops_over_steps(loops: Loops, function: cst.FunctionDef) -> bool:
    return any(isinstance(n, LOOPS) and loops.effects.is_step_loop(n) for n in walk(function.body))


def _behind(loops: Loops, function: cst.FunctionDef) -> list[cst.CSTNode]:
    """The statements of the function's own block behind the last that gives the device work."""
    body = list(function.body.body)
    working = [position for position, s in enumerate(body) if loops.effects.of(s)]
    return list(body[working[-1] + 1 :]) if working else []


def _under_condition(loops: Loops, statement: cst.If, found: Tail) -> None:
    """Some calls read: the barrier stands with the first read under the condition."""
    first = next((s for s in _lines(statement) if _reads_plainly(loops, s)), None)
    if first is not None:
        found.barriers.append(first)
        _spare(loops, statement, found)


def _lines(statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
    return (n for n in walk(statement, into_functions=False) if isinstance(n, cst.SimpleStatementLine))


def _reads_plainly(loops: Loops, statement: cst.CSTNode) -> bool:
    """Whether a statement reads, and only what the step has computed."""
    reads = any(loops.reads.any_within(part) for part in walk(statement, into_functions=False))
    return reads and next(loops.reads.computed(statement), None) is None


def _spare(loops: Loops, statement: cst.CSTNode, found: Tail) -> None:
    tests = (n.test for n in walk(statement, into_functions=False) if isinstance(n, (cst.If, cst.While)))
    for part in (*_lines(statement), *tests):
        if next(loops.reads.computed(part), None) is None:
            found.free.update(loops.reads.within(part))
