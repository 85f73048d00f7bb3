"""What of a program only counts the processes that it starts: the runtime counts them in its place."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from xla_transforms.replicas.starts import Launch, Starts
from xla_transforms.roles import Kind
from xla_transforms.roles.calls import callers
from xla_transforms.roles.ranks import LOCAL_WORLD_SIZE, WORLD_SIZE, joined
from xla_transforms.scopes import ModuleIndex, parameters
from xla_transforms.tree import argument, has_star, same, walk

_SIZES = (WORLD_SIZE, LOCAL_WORLD_SIZE)


class Counts:
    """The numbers of processes in one program that starts them itself."""

    def __init__(self, starts: Starts) -> None:
        self.starts, self.roles = starts, starts.roles

    def dropped(self, launch: Launch) -> list[int]:
        """The positions among ``launch.values`` of what only counts processes: each asks the runtime instead.

        Only where the parameter can go too, and the argument of every other call of the function.
        """
        if launch.function is None or launch.values is None:
            return []
        params = launch.parameters
        found = [p for p in range(min(len(launch.values), len(params))) if self._counts(params[p])]
        sites = callers(self.roles, launch.function)
        return [p for p in found if all(self.given(launch, p, site) for site, _ in sites)]

    def _counts(self, param: cst.Param) -> bool:
        facts = self.roles.facts(param.name)
        return bool(facts) and all(f.kind is Kind.NUMBER and f.detail in _SIZES for f in facts)

    def given(self, launch: Launch, position: int, site: cst.Call) -> cst.Arg | None:
        """The argument by which a call of the function itself gives what a launch gives at a position."""
        name = launch.parameters[position].name.value
        assert launch.function is not None
        by_position = len(parameters(launch.function)) >= position + 2 and not has_star(site)
        return argument(site, name, position + 1) if by_position else None

    def counters(self, launch: Launch) -> list[cst.Name]:
        """The variables that only tell a launch how many processes to start: the names they are bound by."""
        uses = self._uses(launch)
        found: dict[cst.Name, None] = {}
        for use in uses:
            bindings = self.roles.bindings(use)
            target = bindings[0].node if len(bindings) == 1 else None
            if isinstance(target, cst.Name) and self._read_by(target) <= uses:
                found[target] = None
        return list(found)

    def _uses(self, launch: Launch) -> set[cst.Name]:
        """The names that say how many processes there are where only a launch wants to know."""
        assert launch.function is not None
        dropped = self.dropped(launch)
        parts: list[cst.CSTNode | None] = [launch.count, *self.totals]
        parts += [launch.values[p] for p in dropped] if launch.values is not None else []
        for site, _ in callers(self.roles, launch.function):
            parts += [self.given(launch, p, site) for p in dropped]
        return {n for part in parts if part is not None for n in walk(part) if isinstance(n, cst.Name)}

    def _read_by(self, target: cst.Name) -> set[cst.Name]:
        index = self.roles.index(target)
        scope = index.scope_of(target).owner(target.value)
        bound = {b.node for b in scope.bindings[target.value]} if scope is not None else set()
        return {n for n in index.named_of(scope, target.value) if n not in bound and not self._decided(n)}

    def _decided(self, node: cst.Name) -> bool:
        """Whether a name is read only in a condition that goes, since there are several processes."""
        index = self.roles.index(node)
        guards = (a for a in index.ancestors(node) if isinstance(a, cst.If))
        tests = (guard.test for guard in guards if index.within(node, guard.test))
        return any(self.roles.fold(test) is not None for test in tests)

    @cached_property
    def totals(self) -> list[cst.Assign]:
        """``args.world_size = gpus * args.world_size`` above a launch, where nothing there reads it."""
        found = []
        for value in joined(self.roles, "world_size"):
            for node in self.roles.index(value).all(cst.Assign):
                assert isinstance(node, cst.Assign)
                target = node.targets[0].target
                if not isinstance(target, cst.Attribute) or not same(target, value):
                    continue
                if self.starts.before(node) and not self._read(target, node):
                    found.append(node)
        return found

    def _read(self, target: cst.Attribute, statement: cst.Assign) -> bool:
        """Whether the starting process itself reads what it wrote."""
        index = self.roles.index(statement)
        end = index.source.offsets(statement)[1]
        named = [n for n in index.attributed(target.attr.value) if same(n, target)]
        return any(self.starts.before(n) and index.source.offsets(n)[0] > end for n in named)

    def carried(self, index: ModuleIndex) -> list[cst.Attribute]:
        """Where processes of a module read a world size that was computed before they were started."""
        joins = set(self.roles.program.calls.get("init_process_group", ()))
        found: dict[cst.Attribute, None] = {}
        for total in self.totals:
            target = total.targets[0].target
            assert isinstance(target, cst.Attribute)
            for node in index.attributed(target.attr.value):
                inside = not self.starts.before(node) and joins.isdisjoint(index.ancestors(node))
                if inside and same(node, target):
                    found[node] = None
        return list(found)

    def only_counts(self, node: cst.CSTNode) -> bool:
        """Whether an expression is there for launches alone: how many processes they start."""
        index = self.roles.index(node)
        if any(index.within(node, total) for total in self.totals):
            return True
        for launch in self.starts.launches:
            count = launch.count
            if count is not None and index.within(node, count):
                return True
            for name in self.counters(launch):
                binding = self.roles.bindings(name)
                if any(b.value is not None and index.within(node, b.value) for b in binding):
                    return True
        return False
