"""Calls that start processes, each with a number of its own: ``mp.spawn``, or ``Process`` in a loop.

A loop is understood where it does nothing else and its processes are waited for right behind it:

    processes = []
    for rank in range(size):
        p = mp.Process(target=work, args=(rank, size))
        p.start()
        processes.append(p)
    for p in processes:
        p.join()

Source: pytorch v2.9, ``torch/multiprocessing/spawn.py``; Python's ``multiprocessing``; the shape is that of
PyTorch's tutorial "Writing Distributed Applications".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles.facts import Kind, of_kind
from xla_transforms.scopes import parameters
from xla_transforms.tree import (
    argument,
    body_of,
    method,
    number_value,
    receiver,
    string_value,
    value_of,
    walk,
)

if TYPE_CHECKING:
    from xla_transforms.roles import Roles

SPAWNERS = frozenset(
    f"torch.multiprocessing.{name}"
    for name in ("spawn", "spawn.spawn", "start_processes", "spawn.start_processes")
)
PROCESSES = frozenset({"torch.multiprocessing.Process", "multiprocessing.Process"})
CONTEXTS = frozenset({"torch.multiprocessing.get_context", "multiprocessing.get_context"})
_NOT_AWAITED = "the processes are started and not waited for"


@dataclass(frozen=True, eq=False)
class Spawn:
    """A start of processes.

    ``target`` is what each runs, ``values`` what it is given behind its number (``None`` where that is not
    seen), ``count`` how many there are. ``statements`` are first and last of those that start them and
    wait for them, where these are more than the call, ``made`` is the one that makes the list of them, or
    the function that they run.
    ``copies`` tells whether the processes begin as copies of the one that starts them. ``obstacle`` says why
    this is not known to be all.
    """

    call: cst.Call
    target: cst.BaseExpression | None
    values: list[cst.BaseExpression] | None
    count: cst.BaseExpression | None
    statements: tuple[cst.CSTNode, ...] = ()
    made: cst.CSTNode | None = None
    copies: bool = False
    obstacle: str = ""


def spawns(roles: Roles) -> list[Spawn]:
    """All starts of a program."""
    return roles.remembered("spawns", lambda: _spawns(roles))


def _spawns(roles: Roles) -> list[Spawn]:
    calls = roles.program.calls
    found = [c for name in ("spawn", "start_processes") for c in calls.get(name, ())]
    spawners = [_spawner(roles, c) for c in found if roles.path(c.func) in SPAWNERS]
    if not calls.get("init_process_group"):  # processes that do not train together are no replicas
        return spawners
    return spawners + [_process(roles, c) for c in calls.get("Process", ()) if _is_process(roles, c)]


def functions(roles: Roles, spawn: Spawn) -> list[cst.CSTNode]:
    """What a start may run, of the program's functions."""
    facts = roles.facts(spawn.target) if spawn.target is not None else frozenset()
    return [f.node for f in of_kind(facts, Kind.FUNCTION) if f.node is not None]


def _given(call: cst.Call, position: int) -> list[cst.BaseExpression] | None:
    """The elements of ``args=``; ``None`` where they are not seen."""
    given = argument(call, "args", position)
    if given is None:
        return []
    elements = given.value.elements if isinstance(given.value, (cst.Tuple, cst.List)) else None
    if elements is None or any(isinstance(e, cst.StarredElement) for e in elements):
        return None
    return [element.value for element in elements]


def skipped(roles: Roles, spawn: Spawn, function: cst.CSTNode) -> int:
    """How many parameters of a function that processes run have their value before: ``self`` of a method
    that is handed as ``trainer.work``."""
    facts = roles.facts(spawn.target) if spawn.target is not None else frozenset()
    return int(any(f.node is function and f.detail == "bound" for f in facts))


def _unwrapped(
    roles: Roles, call: cst.Call
) -> tuple[cst.BaseExpression | None, list[cst.BaseExpression] | None]:
    """What a call of ``mp.spawn`` runs, and all its values in their order: also of ``partial(work, size=n)``.

    No function where the values do not follow the number without a gap: their order would be another one.
    """
    target, values = value_of(call, "fn", 0), _given(call, 1)
    partial = _held_for(roles, call) or target
    if not isinstance(partial, cst.Call) or roles.path(partial.func) != "functools.partial":
        return target, values
    inner, *rest = [a for a in partial.args if not a.star]
    named = {a.keyword.value: a.value for a in rest if a.keyword is not None}
    found = [f for f in of_kind(roles.facts(inner.value), Kind.FUNCTION) if f.node is not None]
    if len(found) != 1 or len(named) != len(partial.args) - 1 or values is None:
        return None, values
    assert isinstance(found[0].node, cst.FunctionDef)
    first = 1 + (found[0].detail == "bound") + len(values)
    names = [p.name.value for p in parameters(found[0].node)[first : first + len(named)]]
    if set(names) != set(named):
        return None, values
    return inner.value, [*values, *(named[name] for name in names)]


def _held_for(roles: Roles, call: cst.Call) -> cst.BaseExpression | None:
    """The value of a variable that is bound right before a call of ``mp.spawn``, for it alone."""
    name = value_of(call, "fn", 0)
    if not isinstance(name, cst.Name) or len(_uses(roles, name)) != 2:
        return None
    bindings = roles.bindings(name)
    value = bindings[0].value if len(bindings) == 1 else None
    alone = value is not None and _single_name(roles.program.parent(value)) is not None
    behind = _behind(roles, value) if value is not None and alone else None
    return value if behind is not None and any(part is call for part in walk(behind)) else None


def _spawner(roles: Roles, call: cst.Call) -> Spawn:
    (target, values), count = _unwrapped(roles, call), value_of(call, "nprocs", 2)
    held = _held_for(roles, call) if target is not value_of(call, "fn", 0) else None
    made = roles.program.parent(held) if target is not None and held is not None else None
    join = value_of(call, "join", 3)
    if join is None or getattr(join, "value", "") == "True":
        return Spawn(call, target, values, count, made=made)
    joins = _awaited(roles, call)
    if joins is None:
        return Spawn(call, target, values, count, obstacle=_NOT_AWAITED)
    statement = roles.index(call).statement_of(call)
    assert statement is not None
    return Spawn(call, target, values, count, (statement, joins), made)


def _awaited(roles: Roles, call: cst.Call) -> cst.CSTNode | None:
    """``c.join()`` or ``while not c.join(): pass`` right behind ``c = mp.spawn(..., join=False)``."""
    assign = roles.index(call).parent(call)
    name = _single_name(assign)
    behind = _behind(roles, call)
    if name is None or behind is None or len(_uses(roles, name)) != 2:
        return None
    test = behind.test if isinstance(behind, cst.While) else None
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        idle = [n for line in body_of(behind) for n in body_of(line)]
        return behind if _calls(test.expression, name.value, "join") and _passes(idle) else None
    return behind if _calls(_only_expression(behind), name.value, "join") else None


def _is_process(roles: Roles, call: cst.Call) -> bool:
    return roles.path(call.func) in PROCESSES or _context(roles, call) is not None


def _context(roles: Roles, call: cst.Call) -> cst.Call | None:
    """``mp.get_context("spawn")`` where its ``Process`` is called."""
    base = receiver(call)
    if isinstance(base, cst.Name):
        values = [b.value for b in roles.bindings(base)]
        base = values[0] if len(values) == 1 else None
    return base if isinstance(base, cst.Call) and roles.path(base.func) in CONTEXTS else None


def _copies(roles: Roles, call: cst.Call) -> bool:
    """Whether processes are forked, as they are on Linux where nothing else is said."""
    context = _context(roles, call)
    said = [context] if context is not None else roles.program.calls.get("set_start_method", [])
    methods = {string_value(value_of(c, "method", 0)) for c in said}
    return methods != {"spawn"}


def _process(roles: Roles, call: cst.Call) -> Spawn:
    target, given = value_of(call, "target", 1), _given(call, 3)
    loop, count = _counting(roles, call)
    values = given[1:] if given else None
    start = Spawn(call, target, values, count, copies=_copies(roles, call))

    def hindered(obstacle: str) -> Spawn:
        return Spawn(call, target, values, count, copies=start.copies, obstacle=obstacle)

    if loop is None or count is None:
        return hindered("the processes are not started by a loop over range()")
    if not given or argument(call, "kwargs") or not _is(given[0], loop.target):
        return hindered("what the processes are given is not their number first, and then the same for all")
    if any(_is(n, loop.target) for value in given[1:] for n in walk(value)):
        return hindered("what the processes are given differs by more than their number")
    listed = _list_of(loop, call)
    behind = _behind(roles, loop)
    if listed is None or behind is None or not _joins(behind, listed.value):
        return hindered(f"{_NOT_AWAITED} right behind the loop, or the loop does more than start them")
    made = _made(roles, listed)
    if made is None:
        return hindered(f"{listed.value} is used for more than to wait for the processes")
    return Spawn(call, target, values, count, (loop, behind), made, start.copies)


def _counting(roles: Roles, call: cst.Call) -> tuple[cst.For | None, cst.BaseExpression | None]:
    """The loop ``for rank in range(count)`` whose block starts a process."""
    outer = (a for a in roles.index(call).ancestors(call) if isinstance(a, cst.BaseCompoundStatement))
    loop = next(outer, None)
    if not isinstance(loop, cst.For) or not isinstance(loop.target, cst.Name) or loop.orelse is not None:
        return None, None
    counts = isinstance(loop.iter, cst.Call) and roles.path(loop.iter.func) == "builtins.range"
    args = [a.value for a in loop.iter.args] if isinstance(loop.iter, cst.Call) and counts else []
    if len(args) == 2 and number_value(args[0]) == 0:
        args = args[1:]
    return loop, args[0] if len(args) == 1 else None


def _list_of(loop: cst.For, call: cst.Call) -> cst.Name | None:
    """The list that a loop's processes are kept in, where it makes, starts and keeps each, and no more."""
    smalls = [small for line in body_of(loop) for small in (body_of(line) or [line])]
    first, *rest = smalls
    name = _single_name(first)
    if name is None or getattr(first, "value", None) is not call or len(rest) != 2:
        return None
    values = [s.value for s in rest if isinstance(s, cst.Expr)]
    started = [v for v in values if _calls(v, name.value, "start")]
    kept = [v for v in values if method(v) == "append" and isinstance(receiver(v), cst.Name)]
    if len(started) != 1 or len(kept) != 1 or not isinstance(kept[0], cst.Call):
        return None
    given, listed = kept[0].args, receiver(kept[0])
    mine = len(given) == 1 and _is(given[0].value, name)
    return listed if mine and isinstance(listed, cst.Name) else None


def _joins(statement: cst.CSTNode, listed: str) -> bool:
    """``for p in processes: p.join()``, also as a comprehension."""
    if isinstance(statement, cst.For) and statement.orelse is None:
        inner = [_only_expression(line) for line in body_of(statement)]
        over, target = statement.iter, statement.target
    else:
        made = _only_expression(statement)
        if not isinstance(made, cst.ListComp) or made.for_in.ifs or made.for_in.inner_for_in is not None:
            return False
        inner, over, target = [made.elt], made.for_in.iter, made.for_in.target
    if not isinstance(target, cst.Name) or not isinstance(over, cst.Name) or over.value != listed:
        return False
    return len(inner) == 1 and _calls(inner[0], target.value, "join")


def _made(roles: Roles, listed: cst.Name) -> cst.CSTNode | None:
    """``processes = []``, where the list is bound once and used only by the two loops."""
    bindings = roles.bindings(listed)
    value = bindings[0].value if len(bindings) == 1 else None
    empty = isinstance(value, cst.List) and not value.elements
    if isinstance(value, cst.Call):
        empty = roles.path(value.func) == "builtins.list" and not value.args
    made = roles.index(listed).parent(value) if empty and value is not None else None
    return made if len(_uses(roles, listed)) == 3 and _single_name(made) is not None else None


def _uses(roles: Roles, name: cst.Name) -> list[cst.Name]:
    index = roles.index(name)
    scope = index.scope_of(name).owner(name.value)
    return list(index.named_of(scope, name.value)) if scope is not None else []


def _behind(roles: Roles, node: cst.CSTNode) -> cst.CSTNode | None:
    """The statement right behind the one of a node, in its block."""
    index = roles.index(node)
    statement = node if isinstance(node, cst.BaseCompoundStatement) else index.statement_of(node)
    block = index.parent(statement) if statement is not None else None
    lines = body_of(block) if isinstance(block, cst.Module) else list(getattr(block, "body", ()))
    rest: Iterator[cst.CSTNode] = iter(lines)
    return next(rest, None) if any(line is statement for line in rest) else None


def _single_name(statement: cst.CSTNode | None) -> cst.Name | None:
    """``p`` of ``p = ...``."""
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    return target if isinstance(target, cst.Name) else None


def _only_expression(line: cst.CSTNode) -> cst.BaseExpression | None:
    smalls = body_of(line) if isinstance(line, cst.SimpleStatementLine) else [line]
    return smalls[0].value if len(smalls) == 1 and isinstance(smalls[0], cst.Expr) else None


def _calls(node: cst.CSTNode | None, name: str, called: str) -> bool:
    """``name.called()``."""
    plain = isinstance(node, cst.Call) and method(node) == called and not node.args
    return plain and node is not None and getattr(receiver(node), "value", "") == name


def _passes(smalls: list[cst.CSTNode]) -> bool:
    return all(isinstance(small, cst.Pass) for small in smalls)


def _is(node: cst.CSTNode, name: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name) and isinstance(name, cst.Name) and node.value == name.value
