"""What the native program lets its master do alone, though every replica must take part in it.

A save brings tensors to the CPU, which makes the device run what is pending: all replicas have to reach it.
So the guard opens, the save and what it needs run everywhere, and the rest stays the master's:
``regions`` tells them apart. Functions are asked about as a whole program: one that only the master called
is opened together with the guards of its callers, whatever files they stand in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.replicas.calm import Calm
from xla_transforms.replicas.masters import Master, says
from xla_transforms.replicas.regions import Region, Split, carried, exits, gives_none, mentions, obstruct
from xla_transforms.replicas.withheld import withholding
from xla_transforms.roles import Kind
from xla_transforms.roles.calls import callers
from xla_transforms.saves import Saved, saved_by
from xla_transforms.scopes import Binding, ModuleIndex
from xla_transforms.tree import LOOPS, body_of, dotted, string_value, walk

if TYPE_CHECKING:
    from xla_transforms.replicas import Replicas


_INNER = (cst.BaseExpression, cst.Arg, cst.BaseElement)


class Alone:
    """Finds the regions of one program."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas, self.roles = replicas, replicas.roles
        self.calm = Calm(self.roles)
        self._regions: dict[cst.CSTNode, Region] = {}

    @cached_property
    def saves(self) -> frozenset[cst.Call]:
        """The saves that all replicas have to reach."""
        calls = [c for c in self.roles.program.calls.get("save", ()) if not self.roles.dead(c)]
        named = [c for c in calls if self.roles.path(c.func) == "torch.save"]
        return frozenset(c for c in named if saved_by(self.roles, c) in (Saved.TENSORS, Saved.UNSEEN))

    @cached_property
    def saving(self) -> frozenset[cst.FunctionDef]:
        """The functions of the program in which a save is reached, be it through others."""
        found: set[cst.FunctionDef] = set()
        waiting: list[cst.Call] = list(self.saves)
        while waiting:
            function = self._function(waiting.pop())
            if function is not None and function not in found:
                found.add(function)
                waiting += [site for site, _ in callers(self.roles, function)]
        return frozenset(found)

    @cached_property
    def shared(self) -> frozenset[cst.Call]:
        """The saves, and the calls of functions in which one is reached."""
        sites = (site for f in self.saving for site, _ in callers(self.roles, f))
        return self.saves | frozenset(sites)

    def _function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        return self.roles.index(node).function_of(node)

    # ---- who reaches what

    def guards(self, node: cst.CSTNode) -> Iterator[tuple[cst.If, Master]]:
        """The conditions around a node, of its function, that let the master alone come to it."""
        index = self.roles.index(node)
        for outer in index.ancestors(node):
            if isinstance(outer, (cst.FunctionDef, cst.Lambda)):
                return
            if isinstance(outer, cst.If) and index.within(node, outer.body):
                master = self.replicas.master(outer.test)
                if master is not None and master.only:
                    yield outer, master

    def choosing(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """The expression that lets some replicas alone evaluate a node: ``save() if rank == 0 else None``."""
        index, inner = self.roles.index(node), node
        for outer in index.ancestors(node):
            if not isinstance(outer, _INNER) or isinstance(outer, cst.Lambda):
                return None
            test = outer.test if isinstance(outer, cst.IfExp) else getattr(outer, "left", None)
            chosen = isinstance(outer, (cst.IfExp, cst.BooleanOperation)) and inner is not test
            if chosen and test is not None and self.replicas.master(test) is not None:
                assert isinstance(outer, cst.BaseExpression)
                return outer
            inner = outer
        return None

    def of_module(self, index: ModuleIndex) -> Iterator[tuple[cst.If, Master]]:
        """All guards of the master in a module, outer ones first."""
        for guard in index.all(cst.If):
            master = self.replicas.master(guard.test) if isinstance(guard, cst.If) else None
            if master is not None and master.only and not self.roles.dead(guard):
                assert isinstance(guard, cst.If)
                yield guard, master

    def leaving(self, node: cst.CSTNode) -> Iterator[cst.If]:
        """``if rank != 0: return`` above a node: all but the master leave before it."""
        return (statement for statement in self._conditions(node) if self._leaves(statement))

    def barred(self, node: cst.CSTNode) -> Iterator[cst.If]:
        """What lets all but the master leave above a node in another way, which cannot be opened.

        Where the master leaves, the program breaks off: nobody saves.
        """
        for statement in self._conditions(node):
            master = self.replicas.master(statement.test)
            if master is None or self._leaves(statement):
                continue
            others = statement.orelse if master.only else statement.body
            index = self.roles.index(statement)
            if others is not None and (exits(index, others) or index.inside(others, cst.Raise)):
                yield statement

    def _conditions(self, node: cst.CSTNode) -> Iterator[cst.If]:
        return (line for line in above(self.roles.index(node), node) if isinstance(line, cst.If))

    def chosen(self, node: cst.CSTNode) -> bool:
        """Whether only some replicas come to a node, by what its own function says."""
        return self._kept(node) or any(True for _ in self.barred(node))

    def unclear(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The conditions around a node that compare what is called a rank, and not known to be one."""
        index = self.roles.index(node)
        for outer in index.ancestors(node):
            if isinstance(outer, (cst.FunctionDef, cst.Lambda)):
                return
            asked = outer.test if isinstance(outer, cst.If) and index.within(node, outer.body) else None
            if asked is None or self.replicas.master(asked) is not None:
                continue
            if any(map(_speaks_of_rank, says(self.replicas, asked))):
                yield asked

    def parted(self, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()) -> bool:
        """Whether a question about the master stands between a node and some replica, here or in a caller:
        what all replicas have to take part in cannot be written there."""
        index = self.roles.index(node)
        tests: list[cst.BaseExpression] = []
        current: cst.CSTNode = node
        for outer in index.ancestors(node):
            if isinstance(outer, (cst.FunctionDef, cst.Lambda)):
                break
            if isinstance(outer, cst.If):
                tests.append(outer.test)
            if isinstance(outer, (cst.IndentedBlock, cst.Module)):
                above = list(outer.body)[: next(i for i, line in enumerate(outer.body) if line is current)]
                tests += [s.test for s in above if isinstance(s, cst.If) and exits(index, s)]
            current = outer
        if any(self.replicas.master(test) is not None or _speaks_of_rank(test) for test in tests):
            return True
        function = self._function(node)
        if function is None or function in seen:
            return False
        return any(self.parted(site, seen | {function}) for site, _ in callers(self.roles, function))

    def keeps(self, statement: cst.If) -> bool:
        """Whether an ``if`` lets the master alone go on, in its block or behind it: a region of its own."""
        master = self.replicas.master(statement.test)
        return (master is not None and master.only) or self._leaves(statement)

    def _leaves(self, statement: cst.If) -> bool:
        lines = body_of(statement)
        smalls = body_of(lines[-1]) if lines and not isinstance(lines[-1], cst.BaseSmallStatement) else lines
        last = smalls[-1] if smalls else None
        gone = isinstance(last, cst.Continue) or (isinstance(last, cst.Return) and gives_none(last))
        if not gone or len(lines) != 1 or len(smalls) != 1 or statement.orelse is not None:
            return False
        master = self.replicas.master(statement.test)
        return master is not None and not master.only and not master.rest

    def _kept(self, node: cst.CSTNode) -> bool:
        """Whether only the master comes to a node, by what its own function says."""
        return any(True for _ in self.guards(node)) or any(True for _ in self.leaving(node))

    def reached(self, node: cst.CSTNode) -> bool:
        """Whether natively the master alone came to a node, by its own function or all that call it."""
        return self._kept(node) or self._function(node) in self.masters

    @cached_property
    def masters(self) -> frozenset[cst.FunctionDef]:
        """The saving functions that only the master calls."""
        found = {f for f in self.saving if callers(self.roles, f)}
        while True:
            others = {
                f for f in found if any(not self._masters_site(s, found) for s, _ in callers(self.roles, f))
            }
            if not others:
                return frozenset(found)
            found -= others

    def _masters_site(self, site: cst.Call, found: Collection[cst.FunctionDef]) -> bool:
        return self._kept(site) or self._function(site) in found

    # ---- what is opened

    def kept(self, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()) -> bool:
        """Whether a guard that cannot be opened keeps some replica from a node, here or in a caller."""
        regions = [self.region(guard, master, self.shared) for guard, master in self.guards(node)]
        regions += [self._behind(leave) for leave in self.leaving(node)]
        function = self._function(node)
        if any(True for _ in (*self.barred(node), *withholding(self, node))):
            return True
        if function is None or function in seen:
            return any(r.obstacle for r in regions)
        regions += [self._of_function(function)] if function in self.masters else []
        sites = (site for site, _ in callers(self.roles, function))
        return any(r.obstacle for r in regions) or any(self.kept(s, seen | {function}) for s in sites)

    @cached_property
    def regions(self) -> list[Region]:
        """All regions of the program in which a save is reached, outer ones before inner ones."""
        found: dict[cst.CSTNode, Region] = {}
        for call in sorted(self.shared, key=self._order):
            for guard, master in self.guards(call):
                found[guard] = self.region(guard, master, self.shared)
            for leave in self.leaving(call):
                found[leave] = self._behind(leave)
        for function in self.masters:
            found[function] = self._of_function(function)
        return list(found.values())

    def _order(self, node: cst.CSTNode) -> tuple[str, int]:
        source = self.roles.index(node).source
        return source.path, source.offsets(node)[0]

    def region(
        self, guard: cst.If, master: Master, shared: frozenset[cst.Call], lines: Collection[cst.CSTNode] = ()
    ) -> Region:
        """The block of a guard; ``lines`` are statements that all replicas run besides."""
        if not lines and guard in self._regions:
            return self._regions[guard]
        region = Region(guard, body_of(guard), master)
        self._judge(region, shared, lines)
        if not lines:
            self._regions[guard] = region
        return region

    def _behind(self, leave: cst.If) -> Region:
        """What follows an early exit in its block."""
        if leave not in self._regions:
            block = self.roles.index(leave).parent(leave)
            lines = body_of(block) if isinstance(block, cst.Module) else list(getattr(block, "body", ()))
            position = next(i for i, line in enumerate(lines) if line is leave)
            local = any(m.local for m in [self.replicas.master(leave.test)] if m is not None)
            region = Region(leave, lines[position + 1 :], Master(only=True, local=local), leaves=True)
            self._regions[leave] = region
            self._judge(region, self.shared, ())
        return self._regions[leave]

    def _of_function(self, function: cst.FunctionDef) -> Region:
        if function not in self._regions:
            master = Master(only=True, local=self._locally(function))
            self._regions[function] = region = Region(function, body_of(function), master)
            self._judge(region, self.shared, ())
        return self._regions[function]

    def _locally(self, function: cst.FunctionDef) -> bool:
        """Whether each host has a master that calls a function."""
        sites = [site for site, _ in callers(self.roles, function)]
        masters = [m for site in sites for _, m in self.guards(site)]
        return bool(masters) and all(m.local for m in masters)

    def _judge(self, region: Region, shared: frozenset[cst.Call], lines: Collection[cst.CSTNode]) -> None:
        needed = {name for part in region.rest for name in mentions(part)}
        index = self.roles.index(region.node)
        for part in region.rest:
            self.check(region, part, shared)
            if not index.within(part, region.node):
                obstruct(region, region.node, "its condition is made up elsewhere")
        region.decisions += region.rest
        needed |= {
            n.name.value
            for g in walk(region.node)
            if isinstance(g, (cst.Global, cst.Nonlocal))
            for n in g.names
        }
        outer = index.parent(region.node)
        if region.block and isinstance(outer, cst.If) and outer.orelse is region.node:
            obstruct(region, region.node, "it is one way of a longer condition")
        if region.block and isinstance(region.node, cst.If) and region.node.orelse is not None:
            obstruct(region, region.node.orelse, "the other replicas have something else to do")
        needed |= self._from_before(region, needed, shared, lines)
        Split(self, region, shared, lines).block(region.statements, needed)

    def _from_before(
        self, region: Region, needed: set[str], shared: frozenset[cst.Call], lines: Collection[cst.CSTNode]
    ) -> set[str]:
        """The names that a region in a loop leaves for its next time, where all replicas need them then."""
        index = self.roles.index(region.node)
        around = (a for a in index.ancestors(region.node) if isinstance(a, (cst.FunctionDef, *LOOPS)))
        if not isinstance(next(around, None), LOOPS):
            return set()
        kept, grown = carried(region.statements), set(needed)
        while True:
            trial, more = Region(region.node, region.statements, region.master, region.leaves), set(grown)
            Split(self, trial, shared, lines).block(region.statements, more)
            if more & kept <= grown:
                return grown
            grown |= more & kept

    def check(self, region: Region, node: cst.CSTNode, shared: frozenset[cst.Call]) -> None:
        """Note what in a piece of code keeps the others from running it."""
        disturbing = self.calm.disturbs(node, shared)
        if disturbing is not None:
            text = _short(self.roles.index(node).source.code(disturbing))
            obstruct(region, disturbing, f"the save needs {text}, which one replica alone may do")
        for call in (n for n in walk(node) if isinstance(n, cst.Call) and n in shared - self.saves):
            self._check_callee(region, call)
        for name in (n for n in walk(node) if isinstance(n, (cst.Name, cst.Attribute))):
            bound = self._bound_alone(region, name)
            if bound is not None:
                line = self.roles.index(bound).source.span(bound).line
                text = self.roles.index(name).source.code(name)
                obstruct(region, name, f"it needs {text}, which the master alone has, from line {line}")

    def _bound_alone(self, region: Region, name: cst.Name | cst.Attribute) -> cst.CSTNode | None:
        """A statement that gives a name its value, where only the master comes to any that does."""
        index = self.roles.index(name)
        found: Sequence[Binding] = ()
        if isinstance(name, cst.Name):
            found = self.roles.bindings(name)
        elif getattr(name.value, "value", "") == "self":
            found = index.attributes.get(name.attr.value, ())
        guards = [[g for g, _ in self.guards(b.statement)] for b in found]
        alone = all(any(not index.within(region.node, g) for g in around) for around in guards)
        return found[0].statement if found and alone else None

    def _check_callee(self, region: Region, call: cst.Call) -> None:
        """A function that a region calls must be open, or leave all replicas alike."""
        for item in self.roles.facts(call.func):
            function = item.node
            if item.kind is not Kind.FUNCTION or not isinstance(function, cst.FunctionDef):
                continue
            if function not in self.saving:
                continue
            with self.roles.guarded(("opened", function)) as free:
                inner = self._of_function(function) if free else None
            if inner is None or inner is region:
                continue
            if inner.obstacle:
                obstruct(region, inner.place or call, inner.obstacle)
            elif inner.runs and function not in self.masters:
                text = f"{function.name.value}, which all replicas call elsewhere, does more than save"
                obstruct(region, call, text)


def above(index: ModuleIndex, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The statements that stand above a node, in its blocks and those around them, up to its function."""
    current: cst.CSTNode = node
    for outer in index.ancestors(node):
        if isinstance(outer, (cst.FunctionDef, cst.Lambda)):
            return
        if isinstance(outer, cst.IndentedBlock):
            lines = list(outer.body)
            yield from lines[: next(i for i, line in enumerate(lines) if line is current)]
        current = outer


def _speaks_of_rank(test: cst.BaseExpression) -> bool:
    """Whether a condition compares what is called a rank, known to be one or not: ``opt["rank"] == 0``."""
    if isinstance(test, cst.BooleanOperation):
        return _speaks_of_rank(test.left) or _speaks_of_rank(test.right)
    if isinstance(test, cst.Comparison):
        left = test.left
    elif isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        left = test.expression
    else:
        return False
    key = left.slice[0].slice if isinstance(left, cst.Subscript) else None
    word = string_value(key.value) if isinstance(key, cst.Index) else dotted(left).rpartition(".")[2]
    return (word or "").lower().endswith("rank")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 50 else text[:47] + "..."
