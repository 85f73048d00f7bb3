"""What becomes of each read in a step loop: summed on the device, moved into a step closure, or left.

A statement may move only if everything that uses what it stores or binds moves too; the analysis starts
by moving all it could and takes back what would be seen too late.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from xla_transforms.loops import Effect, Loop, Loops
from xla_transforms.loops.handover import Handover, Run
from xla_transforms.loops.reads import spans_lines
from xla_transforms.loops.sinks import Sinks
from xla_transforms.loops.sums import Sum, Sums
from xla_transforms.loops.units import Unit, Units, lines_of
from xla_transforms.scopes import Binding, How, Scope
from xla_transforms.tree import method, walk

_EXITS = frozenset({"sys.exit", "os._exit", "builtins.exit", "builtins.quit"})


class Deferral:
    """The reads of one step loop. ``closures`` tells whether step closures surely run there."""

    def __init__(self, loops: Loops, loop: Loop, *, closures: bool) -> None:
        self.loops, self.loop, self.closures = loops, loop, closures
        self.roles, self.index = loops.roles, loops.index
        self.reads = loops.reads
        self.sinks = Sinks(self.roles, loops.effects, self.reads)
        self.parts = Units(loops, loop, self.reads, self.sinks)
        self.units = self.parts.found
        self._sums = Sums(self.roles, self.reads)
        self.value_function = self._sums.value_function
        self.into_tensor = self._sums.into_tensor
        self.sums: dict[str, Sum] = {}
        self.deferred: dict[str, Unit] = {}
        self.moved: set[Unit] = set()
        self._rejected: set[object] = set()
        self.runs: list[Run] = []
        self._settle()

    # ---- what may move

    @cached_property
    def scope(self) -> Scope:
        """The scope of the function (or module) in which the loop stands."""
        return self.index.scope_of(self.loop.node)

    def _settle(self) -> None:
        if not any(unit.reads or self._value_functions(unit) for unit in self.units):
            return
        while True:
            self._assume()
            if not self._take_back():
                runs = self._group()
                hasty = [u for run in runs if not self._sound(run) for u in run.units if u in self.moved]
                if not hasty:
                    self.runs = runs
                    return
                self._rejected.update(hasty)

    def _assume(self) -> None:
        """Everything that could be deferred, but for what was taken back before."""
        self.deferred = {
            name: unit
            for unit in self.units
            if (name := self._deferrable(unit)) and name not in self._rejected
        }
        self.sums = {}
        for unit in self.units:
            self._add_to_sum(unit)
        for name in [n for n, s in self.sums.items() if n in self._rejected or not self._summable(s)]:
            del self.sums[name]
        self.moved = {
            u for u in self.units if u.sink and u not in self._rejected and u.reads and self._movable(u)
        }
        while more := [u for u in self.units if u not in self.moved and self._follows(u)]:
            self.moved.update(more)

    def _follows(self, unit: Unit) -> bool:
        """Whether a sink without reads of its own uses what is deferred."""
        late = unit.sink and unit not in self._rejected and bool(unit.mentions & self.tainted)
        return (
            late
            and self._movable(unit)
            and unit not in self._sum_units()
            and not self.parts.numbers_only(unit.statement)
        )

    def _movable(self, unit: Unit) -> bool:
        """Whether a sink may run in a closure or, where none runs, stands where a barrier may precede it."""
        if unit.behind or unit in self._sum_units() or unit in self.deferred.values():
            return False
        if any(not self.sinks.is_lasting(c) for c in self._contexts(unit.statement)):
            return False
        timely = self.closures or bool(unit.guards) or not self.works_after(unit.statement)
        return timely and isinstance(unit.block, cst.IndentedBlock)

    def _contexts(self, node: cst.CSTNode) -> Iterator[cst.With]:
        """The ``with`` statements of an iteration around a statement: they end before the barrier."""
        for outer in self.index.ancestors(node):
            if outer is self.loop.node:
                return
            if isinstance(outer, cst.With):
                yield outer

    def works_after(self, node: cst.CSTNode) -> bool:
        """Whether an iteration gives the device work behind a statement.

        A forward pass that only some iterations run (samples drawn now and then) does not count: it is
        an execution of its own in those.
        """
        offsets, effects = self.index.source.offsets, self.loops.effects
        end = offsets(node)[1]
        for call in effects.calls(self.loop.node.body):
            done = effects.of_call(call)
            if done and offsets(call)[0] > end and not (done is Effect.FORWARD and self._guarded(call, node)):
                return True
        return False

    def _guarded(self, call: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether a call stands under a condition of the loop that ``node`` does not stand under."""
        for outer in self.index.ancestors(call):
            if outer is self.loop.node:
                return False
            if isinstance(outer, cst.If):
                return not self.index.within(node, outer)
        return False

    def _sum_units(self) -> set[Unit]:
        return {unit for total in self.sums.values() for unit in total.units}

    @property
    def tainted(self) -> set[str]:
        """What holds a value late, or a tensor in place of a number."""
        found = {*self.sums, *self.deferred}
        if not self.closures:
            return found
        for unit in self.moved:
            found |= unit.stores | (unit.binds if not self._local(unit) else set())
        return found | self._aliases(found)

    def _local(self, unit: Unit) -> bool:
        """Whether the names that a sink binds are used by itself alone."""
        others = [u for u in self.units if u is not unit]
        return not any(unit.binds & u.mentions for u in others) and not self.used_outside(unit.binds)

    def used_outside(self, names: set[str]) -> bool:
        for name in names:
            for use in self.index.named(name):
                inside = self.index.within(use, self.loop.node)
                if not inside and self.index.scope_of(use).owner(name) is self.scope.owner(name):
                    return True
        return False

    def _aliases(self, roots: set[str]) -> set[str]:
        """Names bound from an expression that holds a stored object: a meter in a list of meters."""
        found: set[str] = set()
        stored = roots & {r for u in self.moved for r in u.stores}
        scope: Scope | None = self.scope if stored else None
        while scope is not None:
            for name, bindings in scope.bindings.items():
                if name not in roots and any(self._is_alias(b, stored) for b in bindings):
                    found.add(name)
            scope = scope.parent
        return found

    def _is_alias(self, binding: Binding, stored: set[str]) -> bool:
        inside = self.index.within(binding.statement, self.loop.node)
        return binding.how is How.ASSIGN and not inside and self._holds(binding.value, stored)

    def _holds(self, value: cst.BaseExpression | None, stored: set[str]) -> bool:
        if not isinstance(value, (cst.Call, cst.List, cst.Tuple, cst.Dict, cst.Name)):
            return False
        if isinstance(value, cst.Call) and self.roles.path(value.func).startswith(
            ("builtins.len", "builtins.sum")
        ):
            return False
        return any(m in stored for m in self.parts.mentions(value))

    def _take_back(self) -> bool:
        """Reject what something that does not move would see too late; whether anything was rejected."""
        tainted, before = self.tainted, len(self._rejected)
        sums = self._sum_units()
        for name in tainted & self._head():
            self._reject(name)
        for unit in self.units:
            if unit in self.moved:
                continue
            for name in unit.mentions & tainted:
                if not self._allowed(unit, name, sums):
                    self._reject(name)
        for name in [n for n in self.deferred if self._seen_after(n)]:
            self._rejected.add(name)
        for root in {r for u in self.moved for r in u.stores if r.startswith("self.")}:
            if self._reached_by_calls(root.removeprefix("self.")):
                self._reject(root)
        return len(self._rejected) > before

    def _head(self) -> set[str]:
        head = self.loop.node.test if isinstance(self.loop.node, cst.While) else self.loop.node.iter
        return set(self.parts.mentions(head))

    def _allowed(self, unit: Unit, name: str, sums: set[Unit]) -> bool:
        if unit.behind and name not in self._bound_late():
            return True  # the barrier has run the closures; sums and values are restored there
        if name in self.sums or name in self.deferred:
            restored = bool(unit.guards) or (not self.closures and unit in self.moved)
            if restored and not self._changed_within(name, unit):
                return True
        if name in self.sums and unit in self.sums[name].units:
            return True
        if name in self.deferred:
            return unit is self.deferred[name] or unit in sums
        return self.parts.numbers_only(unit.statement) and name in unit.binds

    def _changed_within(self, name: str, unit: Unit) -> bool:
        """Whether a guarded block that uses a sum or value also changes it."""
        own = self.sums[name].units if name in self.sums else [self.deferred[name]]
        return bool(unit.guards) and any(unit.guards[0] in u.guards for u in own)

    def _bound_late(self) -> set[str]:
        return {name for unit in self.moved for name in unit.binds}

    def _stored(self) -> set[str]:
        return {r for u in self.moved for r in u.stores}

    def _reject(self, name: str) -> None:
        if name in self.sums or name in self.deferred:
            self._rejected.add(name)
            return
        stored = {name} if name in self._stored() else self._stored()
        for unit in self.moved:
            if unit.stores & stored or name in unit.binds:
                self._rejected.add(unit)

    def _seen_after(self, name: str) -> bool:
        """Whether a deferred value is used outside the loop."""
        targets = [
            n for n in walk(self.deferred[name].statement) if isinstance(n, cst.Name) and n.value == name
        ]
        owner = self.index.scope_of(targets[0]).owner(name)
        for use in self.index.named(name):
            if self.index.within(use, self.loop.node) or self.index.scope_of(use).owner(name) is not owner:
                continue
            if any(b.node in targets for b in self.roles.bindings(use)) and not self._binds(use):
                return True
        return False

    def _binds(self, name: cst.Name) -> bool:
        owner = self.index.scope_of(name).owner(name.value)
        return owner is not None and any(b.node is name for b in owner.bindings[name.value])

    def _reached_by_calls(self, attribute: str) -> bool:
        """Whether a method called in an iteration uses an attribute that a closure sets."""
        called = {method(n) for n in walk(self.loop.node.body) if isinstance(n, cst.Call)}
        own = self.index.function_of(self.loop.node)
        seen: set[str] = set()
        while called - seen:
            name = (called - seen).pop()
            seen.add(name)
            for function in self.index.all(cst.FunctionDef):
                assert isinstance(function, cst.FunctionDef)
                if function.name.value != name or function is own:
                    continue
                for node in walk(function.body):
                    if isinstance(node, cst.Attribute) and node.attr.value == attribute:
                        return True
                    if isinstance(node, cst.Call):
                        called.add(method(node))
        return False

    # ---- sums and single values

    def _deferrable(self, unit: Unit) -> str | None:
        """The name of ``value = loss.item()``, bound nowhere else in the loop."""
        if not isinstance(unit.statement, cst.SimpleStatementLine) or unit.behind:
            return None
        small = unit.statement.body[0]
        if len(unit.statement.body) != 1 or not isinstance(small, cst.Assign) or len(small.targets) != 1:
            return None
        target = small.targets[0].target
        read = self._sums.value_read(small.value) is not None
        if not isinstance(target, cst.Name) or not (read or self._sums.value_function(small.value)):
            return None
        return target.value if sum(target.value in u.binds for u in self.units) == 1 else None

    def _value_functions(self, unit: Unit) -> list[cst.FunctionDef]:
        calls = [n for n in walk(unit.statement) if isinstance(n, cst.Call)] if unit.whole else []
        return [f for c in calls if (f := self._sums.value_function(c)) is not None]

    def _add_to_sum(self, unit: Unit) -> None:
        listed = self._sums.collected(unit.statement) if not self.closures and not unit.guards else None
        found = listed or self._sums.addition(unit.statement)
        if found is None or not unit.whole:
            return
        name, value = found
        leaves = self._sums.leaves(value, set(self.deferred))
        deferred = any(isinstance(n, cst.Name) and n.value in self.deferred for n in walk(value))
        if leaves is None or not (leaves or deferred):
            return
        if unit.behind and not deferred and not any(self._computes(leaf) for leaf in leaves):
            return
        total = self.sums.setdefault(name.value, Sum(name.value, listed=listed is not None))
        total.units.append(unit)
        total.leaves.extend(leaves)

    def _computes(self, leaf: cst.Call) -> bool:
        """Whether reading a value has the device work, the barrier having passed."""
        tensor = self._sums.value_read(leaf)
        return tensor is not None and not self.reads.plain(tensor)

    def _summable(self, total: Sum) -> bool:
        """Whether a sum starts from literal numbers; finds out what restores it behind the loop."""
        if getattr(self.loop.node, "orelse", None) is not None:
            return False
        if total.listed:
            return self._cast(total, {"int"}) and not self._elsewhere(total.name, self.scope)
        starts: set[str] = set()
        own = {u.statement for u in total.units}
        target = next(
            n for n in walk(total.units[0].statement) if isinstance(n, cst.Name) and n.value == total.name
        )
        scope = self.index.scope_of(target).owner(total.name)
        if scope is None or (scope is not self.scope):
            return False
        for binding in scope.bindings[total.name]:
            if self.index.statement_of(binding.statement) in own:
                continue
            inside = self.index.within(binding.statement, self.loop.node)
            if not inside and binding not in self._reaching(total, target):
                continue
            start = self._start(binding.value, binding.path)
            if binding.how is not How.ASSIGN or not start:
                if inside or binding.how is not How.AUGMENT:
                    return False
                continue
            starts.add(start)
        return bool(starts) and self._cast(total, starts) and not self._elsewhere(total.name, scope)

    def _reaching(self, total: Sum, target: cst.Name) -> list[object]:
        return list(self.roles.bindings(target))

    def _start(self, value: cst.BaseExpression | None, path: tuple[int, ...]) -> str:
        if isinstance(value, cst.Tuple) and len(path) == 1 and path[0] < len(value.elements):
            value = value.elements[path[0]].value
        elif path:
            return ""
        if isinstance(value, cst.UnaryOperation):
            value = value.expression
        return "int" if isinstance(value, cst.Integer) else "float" if isinstance(value, cst.Float) else ""

    def _cast(self, total: Sum, starts: set[str]) -> bool:
        kinds: set[str] = set()
        for unit in total.units:
            found = self._sums.addition(unit.statement) or self._sums.collected(unit.statement)
            if found is None:
                return False
            kinds.add(self._kind(found[1]))
        total.counts = kinds <= {"int", "bool"}
        if starts == {"int"} and "" in kinds:
            return False
        total.cast = "int" if starts == {"int"} and total.counts else "float"
        return True

    def _kind(self, value: cst.BaseExpression) -> str:
        if isinstance(value, cst.Name) and value.value in self.deferred:
            small = self.deferred[value.value].statement.body[0]  # type: ignore[attr-defined]
            return self._sums.kind_of(small.value)
        if isinstance(value, cst.BinaryOperation) and not isinstance(value.operator, cst.Divide):
            kinds = {self._kind(value.left), self._kind(value.right)}
            return "float" if "float" in kinds else "" if "" in kinds else "int"
        return self._sums.kind_of(value)

    def _elsewhere(self, name: str, scope: Scope) -> bool:
        """Whether an inner function uses a sum."""
        uses = [n for n in self.index.named(name) if self.index.scope_of(n).owner(name) is scope]
        own = self.index.function_of(self.loop.node)
        return any(self.index.function_of(use) is not own for use in uses)

    # ---- what is to be written

    def _group(self) -> list[Run]:
        by_statement = {unit.statement: unit for unit in self.units}
        runs: list[Run] = []
        for block in dict.fromkeys(unit.block for unit in self.units if unit in self.moved):
            current: list[Unit] = []
            for statement in lines_of(block):
                unit = by_statement.get(statement)
                if unit is not None and (unit in self.moved or (current and self._joins(unit))):
                    current.append(unit)
                elif current:
                    runs.append(Run(current))
                    current = []
            if current:
                runs.append(Run(current))
        return runs

    def _joins(self, unit: Unit) -> bool:
        """Whether a line without reads goes into the closure before it, so that lines keep their order."""
        return self.sinks.only_shows(unit.statement) and unit not in self._rejected and not unit.behind

    def _sound(self, run: Run) -> bool:
        """Whether a run prints and stores the same later; fills in what it must be handed."""
        if not self.closures:
            return True
        if any(spans_lines(unit.statement) for unit in run.units) or self._exits_after(run):
            return False
        return Handover(self, run).arrange()

    def _exits_after(self, run: Run) -> bool:
        """Whether the program ends behind a run, in its block, before a barrier runs its closure."""
        lines = lines_of(run.units[-1].block)
        position = next(i for i, s in enumerate(lines) if s is run.units[-1].statement)
        for node in (n for line in lines[position + 1 :] for n in walk(line)):
            if isinstance(node, cst.Raise):
                return True
            if isinstance(node, cst.Call) and self.roles.path(node.func) in _EXITS:
                return True
        return False

    @cached_property
    def restores(self) -> dict[cst.CSTNode, list[str]]:
        """Sums and values that must be numbers again before a statement, by that statement."""
        found: dict[cst.CSTNode, list[str]] = {}
        own = {*self._sum_units(), *self.deferred.values()}
        in_closures = {unit for run in self.runs for unit in run.units if self.closures}
        for unit in self.units:
            if unit in own or unit in in_closures or self.parts.numbers_only(unit.statement):
                continue
            names = [name for name in [*self.deferred, *self.sums] if name in unit.mentions]
            if names:
                inner = unit.behind or not unit.guards
                anchor = unit.statement if inner else lines_of(unit.guards[0])[0]
                found[anchor] = list(dict.fromkeys([*found.get(anchor, ()), *names]))
        return found

    @property
    def late(self) -> set[str]:
        """The names that hold tensors where they held numbers."""
        return {*self.sums, *self.deferred}

    def restored(self, name: str) -> str:
        """The line that makes a sum or a value a number again."""
        if name not in self.sums:
            return f"{name} = {name}.item()"
        total = self.sums[name]
        return (
            f"{name}[:] = [{total.cast}(v) for v in {name}]"
            if total.listed
            else f"{name} = {total.cast}({name})"
        )

    @property
    def left(self) -> list[Unit]:
        """The statements whose reads stay where they are, before the iteration's barrier."""
        handled = {*self._sum_units(), *self.deferred.values()}
        handled |= {unit for run in self.runs for unit in run.units}
        return [u for u in self.units if u.reads and u not in handled and not u.behind]

    @property
    def functions(self) -> set[cst.FunctionDef]:
        """The functions that give back a tensor in place of its value, for a sum or a value of this loop."""
        units = {*self._sum_units(), *self.deferred.values()}
        return {f for unit in units for f in self._value_functions(unit)}

    def captured(self, total: Sum) -> bool:
        """Whether a closure is handed a sum before more is added to it in the same iteration."""
        offsets = self.index.source.offsets
        runs = [run for run in self.runs if total.name in run.names] if self.closures else []
        ends = [offsets(run.units[-1].statement)[1] for run in runs]
        return bool(ends) and any(offsets(u.statement)[0] > min(ends) for u in total.units)

    def value_of(self, unit: Unit) -> cst.Call:
        """The call that gives a deferred value: ``loss.item()`` of ``value = loss.item()``."""
        assert isinstance(unit.statement, cst.SimpleStatementLine)
        small = unit.statement.body[0]
        assert isinstance(small, cst.Assign)
        assert isinstance(small.value, cst.Call)
        return small.value

    def tensor_of(self, read: cst.Call) -> cst.BaseExpression | None:
        """The tensor that a read of a single value brings to the host."""
        return self._sums.value_read(read)

    def dtype_of(self, tensor: cst.BaseExpression) -> str:
        """``int``, ``bool`` or ``float`` for a tensor, the empty string where it is not known."""
        return self._sums.dtype_of(tensor)
