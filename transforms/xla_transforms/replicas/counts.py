"""What of a program only counts the processes that it starts: the runtime counts them in its place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import libcst as cst

from xla_transforms.replicas.starts import Launch, Starts
from xla_transforms.roles import Kind
from xla_transforms.roles.calls import callers
from xla_transforms.roles.ranks import LOCAL_WORLD_SIZE, WORLD_SIZE, given, joined
from xla_transforms.scopes import Binding, How, ModuleIndex, parameters
from xla_transforms.tree import argument, has_star, same, walk

_SIZES = (WORLD_SIZE, LOCAL_WORLD_SIZE)
Place = cst.Name | cst.Attribute


class Handed(NamedTuple):
    """A parameter that brings a function how many processes to start, and what its calls give for it."""

    function: cst.FunctionDef
    param: cst.Param
    calls: list[tuple[cst.Call, cst.Arg]]


class Counts:
    """The numbers of processes in one program that starts them itself."""

    def __init__(self, starts: Starts) -> None:
        self.starts, self.roles = starts, starts.roles

    def dropped(self, launch: Launch) -> list[int]:
        """The positions among ``launch.values`` of what only counts processes: each asks the runtime instead.

        Only where the parameter can go too, that of each function which this start may run, and the argument
        of every other call of it.
        """
        same_start = [one for one in self.starts.launches if one.call is launch.call]
        alike = [set(self._droppable(one)) for one in same_start]
        return [p for p in self._droppable(launch) if all(p in positions for positions in alike)]

    def _droppable(self, launch: Launch) -> list[int]:
        if launch.function is None or launch.values is None:
            return []
        sites = [site for site, _ in callers(self.roles, launch.function)]
        found = [
            p
            for p, (param, value) in enumerate(zip(launch.parameters, launch.values, strict=False))
            if self._counts(param.name)
            or all(self._tells(one) for one in (value, *self._given(launch, p, sites)))
        ]
        if not found or not self._all_seen(launch.function, sites):
            return []
        return [p for p in found if all(self.given(launch, p, site) for site in sites)]

    def _counts(self, node: cst.BaseExpression) -> bool:
        facts = self.roles.facts(node)
        return bool(facts) and all(f.kind is Kind.NUMBER and f.detail in _SIZES for f in facts)

    def _tells(self, node: cst.BaseExpression) -> bool:
        """Whether a variable is the number of devices, or one where the CPU was chosen in their place."""
        values = [b.value for b in self.roles.bindings(node)] if isinstance(node, cst.Name) else []
        sizes = [v for v in values if v is not None and self._counts(v)]
        ones = [v for v in values if isinstance(v, cst.Integer) and v.value == "1"]
        return bool(sizes) and len(sizes) + len(ones) == len(values)

    def _given(self, launch: Launch, position: int, sites: list[cst.Call]) -> list[cst.BaseExpression]:
        """What the calls of the function itself give at a position of a launch."""
        args = [self.given(launch, position, site) for site in sites]
        return [arg.value for arg in args if arg is not None]

    def given(self, launch: Launch, position: int, site: cst.Call) -> cst.Arg | None:
        """The argument by which a call of the function itself gives what a launch gives at a position."""
        name = launch.parameters[position].name.value
        assert launch.function is not None
        by_position = len(parameters(launch.function)) >= position + 2 and not has_star(site)
        return argument(site, name, position + 1) if by_position else None

    @property
    def counters(self) -> list[Place]:
        """The variables, and options set by the script, that only tell how many processes to start: the
        places they are bound by."""
        return self._only_counting[0]

    @property
    def handed(self) -> list[Handed]:
        """The parameters that bring such a number to a launch, and to nothing else."""
        return self._only_counting[1]

    @cached_property
    def _only_counting(self) -> tuple[list[Place], list[Handed]]:
        counters: dict[Place, None] = {}
        handed: dict[cst.Param, Handed] = {}
        uses = {name for launch in self.starts.launches for name in self._wanted_by(launch)}
        waiting = list(uses)
        while waiting:
            fresh: list[cst.CSTNode] = []
            for bound, value in self._bound_to(waiting.pop()):
                if isinstance(bound, (cst.Name, cst.Attribute)):
                    if bound not in counters and self._read_by(bound) <= uses:
                        counters[bound] = None
                        fresh += [value] if value is not None else []
                elif isinstance(bound, cst.Param) and bound not in handed and self._read_by(bound) <= uses:
                    one = self._handed(bound)
                    if one is not None:
                        handed[bound] = one
                        fresh += [arg.value for _, arg in one.calls]
            wanted = {name for part in fresh for name in _places(part)}
            waiting += wanted
            uses |= wanted
        return list(counters), list(handed.values())

    def _handed(self, param: cst.Param) -> Handed | None:
        """A parameter of a function that starts processes, with what each call gives; none where one does
        not give it."""
        scope = self.roles.index(param).function_of(param)
        if scope not in self.starts.launching or not isinstance(scope, cst.FunctionDef):
            return None
        position = parameters(scope).index(param)
        sites = [site for site, own in callers(self.roles, scope) if not own]
        given = [(site, argument(site, param.name.value, position)) for site in sites]
        calls = [(site, arg) for site, arg in given if arg is not None and not has_star(site)]
        plain = param in scope.params.params and len(calls) == len(callers(self.roles, scope))
        seen = plain and self._all_seen(scope, [site for site, _ in calls])
        return Handed(scope, param, calls) if seen and calls else None

    def _all_seen(self, function: cst.FunctionDef, calls: list[cst.Call]) -> bool:
        """Whether nothing but these calls, and what starts processes, comes to call a function."""
        name, places = function.name.value, [call.func for call in calls]
        for index in self.roles.program.modules.values():
            for node in (*index.named(name), *index.attributed(name)):
                binds = isinstance(index.parent(node), (cst.FunctionDef, cst.ImportAlias))
                held = node not in places and not binds
                means = held and any(fact.node is function for fact in self.roles.facts(node))
                if means and not self._is_started(index, node):
                    return False
        return True

    def _is_started(self, index: ModuleIndex, node: cst.CSTNode) -> bool:
        """Whether a function is named to what starts processes of it, or to what comes to do so."""
        arg = index.parent(node)
        call = index.parent(arg) if isinstance(arg, cst.Arg) else None
        if not isinstance(call, cst.Call):
            return False
        if any(call is launch.call or node is launch.spawn.target for launch in self.starts.launches):
            return True
        return any(fact.node in self.starts.launching for fact in self.roles.facts(call.func))

    def _bound_to(self, use: Place) -> list[tuple[cst.CSTNode, cst.CSTNode | None]]:
        """What binds a name, with its value: one thing, or the two ways of a choice (``_tells``)."""
        bindings = self._bindings(use)
        understood = len(bindings) == 1 or self._tells(use)
        return [(b.node, b.value) for b in bindings] if understood else []

    def _bindings(self, use: Place) -> list[Binding]:
        """What gives a variable its value, or an option of the command line that the script sets itself."""
        if isinstance(use, cst.Name):
            return self.roles.bindings(use)
        options = self.roles.kinds(use.value) == {Kind.ARGUMENTS}
        return [b for b in given(self.roles, use) if b.how is How.ASSIGN and not b.path] if options else []

    def _wanted_by(self, launch: Launch) -> set[Place]:
        dropped = self.dropped(launch)
        parts: list[cst.CSTNode | None] = [launch.count, *self.totals, *self.begun]
        parts += [launch.values[p] for p in dropped] if launch.values is not None else []
        for site, _ in callers(self.roles, launch.function) if launch.function is not None else ():
            parts += [self.given(launch, p, site) for p in dropped]
        return {place for part in parts if part is not None for place in _places(part)}

    def _read_by(self, bound: Place | cst.Param) -> set[Place]:
        if isinstance(bound, cst.Attribute):
            return self._options_read(bound)
        index = self.roles.index(bound)
        name = bound.name.value if isinstance(bound, cst.Param) else bound.value
        inside = index.function_of(bound) if isinstance(bound, cst.Param) else None
        scope = index.scopes[inside] if inside is not None else index.scope_of(bound).owner(name)
        written = {b.node for b in scope.bindings[name]} if scope is not None else set()
        return {n for n in index.named_of(scope, name) if n not in written and not self._decided(n)}

    def _options_read(self, bound: cst.Attribute) -> set[Place]:
        """The reads of an option anywhere in the program, by whatever its name is read."""
        name = bound.attr.value
        written = {binding.node for binding in self.roles.program.attributes.get(name, ())}
        modules = self.roles.program.modules.values()
        return {n for index in modules for n in index.attributed(name) if n not in written}

    def _decided(self, node: cst.Name) -> bool:
        """Whether a name is read only in a condition that goes, since there are several processes."""
        index = self.roles.index(node)
        for around in index.ancestors(node):
            deciding = isinstance(around, cst.If) and index.within(node, around.test)
            if deciding or isinstance(around, cst.Assert):
                assert isinstance(around, (cst.If, cst.Assert))
                if self.roles.fold(around.test) is not None:
                    return True
        return False

    @cached_property
    def begun(self) -> list[cst.CSTNode]:
        """``args.rank = node * gpus`` above a launch, of which each process made its rank (``+= gpu``)."""
        values = [v for v in joined(self.roles, "rank") if isinstance(v, cst.Attribute)]
        found: dict[cst.CSTNode, None] = {}
        for bindings in (given(self.roles, value) for value in values):
            made = [b for b in bindings if b.how is How.AUGMENT and not self.starts.before(b.statement)]
            for binding in bindings if made else ():
                if isinstance(binding.statement, cst.Assign) and self._only_early(binding):
                    found[binding.statement] = None
        return list(found)

    @cached_property
    def totals(self) -> dict[cst.CSTNode, cst.Attribute]:
        """``args.world_size = gpus * args.world_size`` above a launch, where nothing there reads it: what
        each of such statements gives its value."""
        found: dict[cst.CSTNode, cst.Attribute] = {}
        for value in joined(self.roles, "world_size"):
            for binding in given(self.roles, value):
                statement, target = binding.statement, binding.node
                assigned = isinstance(statement, (cst.Assign, cst.AugAssign))
                if assigned and isinstance(target, cst.Attribute) and self._only_early(binding):
                    found[statement] = target
        return found

    def is_total(self, value: cst.BaseExpression) -> bool:
        """Whether a world size is computed above a launch alone, whichever way that is come to."""
        bindings = given(self.roles, value)
        return bool(bindings) and all(binding.statement in self.totals for binding in bindings)

    def _only_early(self, binding: Binding) -> bool:
        """Whether the starting process gives an attribute a value that it does not read itself."""
        statement, target = binding.statement, binding.node
        if not isinstance(target, cst.Attribute) or not self.starts.before(statement):
            return False
        index = self.roles.index(statement)
        end = index.source.offsets(statement)[1]
        written = {binding.node for binding in given(self.roles, target)}
        named = [n for n in index.attributed(target.attr.value) if same(n, target) and n not in written]
        return not any(self.starts.before(n) and index.source.offsets(n)[0] > end for n in named)

    def carried(self, index: ModuleIndex) -> list[cst.Attribute]:
        """Where processes of a module read a world size that was computed before they were started."""
        joins = set(self.roles.program.calls.get("init_process_group", ()))
        found: dict[cst.Attribute, None] = {}
        for target in self.totals.values():
            for node in index.attributed(target.attr.value):
                inside = not self.starts.before(node) and joins.isdisjoint(index.ancestors(node))
                if inside and same(node, target):
                    found[node] = None
        return list(found)

    def only_counts(self, node: cst.CSTNode) -> bool:
        """Whether an expression is there for launches alone: how many processes they start."""
        index = self.roles.index(node)
        if any(index.within(node, part) for part in (*self.totals, *self.begun)):
            return True
        for launch in self.starts.launches:
            count = launch.count
            if count is not None and index.within(node, count):
                return True
        values = [b.value for place in self.counters for b in self._bindings(place)]
        values += [arg.value for one in self.handed for _, arg in one.calls]
        return any(value is not None and index.within(node, value) for value in values)


def _places(part: cst.CSTNode) -> Iterator[Place]:
    return (node for node in walk(part) if isinstance(node, (cst.Name, cst.Attribute)))
