"""Which values differ between replicas: what is computed from a replica's own share of the data, read
from its own clock, or drawn for itself.

Python that decides by such a value decides otherwise on each replica, unless the value was reduced first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.replicas.collectives import short
from xla_transforms.replicas.drawn import Drawn
from xla_transforms.roles import Kind
from xla_transforms.roles.calls import sites
from xla_transforms.roles.classes import find_method, related
from xla_transforms.roles.facts import Fact, Facts, known, of_kind
from xla_transforms.roles.ranks import PLACES, SIZES
from xla_transforms.roles.structure import loaders_behind
from xla_transforms.scopes import Binding, How, ModuleIndex, Scope, parameters
from xla_transforms.tree import children, method, receiver, string_value, value_of, walk

if TYPE_CHECKING:
    from xla_transforms.replicas import Replicas

_EQUALIZES = frozenset(
    {
        "all_reduce",
        "broadcast",
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_object",
        "broadcast_object_list",
    }
)
_STORES = frozenset({"append", "extend", "update", "add", "insert"})
_SAMPLERS = ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler")
_COUNTS = frozenset(
    {"builtins.len", "builtins.range", "builtins.isinstance", "builtins.hasattr", "builtins.type"}
)
_SHARED = (  # files and texts, which no replica has for itself
    "argparse.", "builtins.open", "builtins.repr", "builtins.str", "glob.", "importlib.", "json.", "os.",
    "pathlib.", "pickle.load", "re.", "shutil.", "torch.load", "urllib.", "yaml.",
)  # fmt: skip
_CLOCKS = frozenset(
    {
        *(f"time.{name}" for name in ("time", "monotonic", "perf_counter", "process_time")),
        *(f"time.{name}_ns" for name in ("time", "monotonic", "perf_counter", "process_time")),
        "timeit.default_timer", "datetime.datetime.now", "datetime.datetime.utcnow",
    }
)  # fmt: skip
_NUMBERS = frozenset(
    f"builtins.{name}" for name in ("abs", "bool", "float", "int", "max", "min", "round", "sum")
)


class State(IntEnum):
    """What a value is on the replicas; the greater one prevails in an expression."""

    SAME = 0  # as far as is known
    REDUCED = 1  # made the same by a collective
    TIMED = 2  # by a replica's own clock
    DRAWN = 3  # by a replica's own generator
    OWN = 4


_DIFFERENT = (State.TIMED, State.DRAWN, State.OWN)


class Decisions:
    """Answers it for one program."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas, self.roles, self.drawn = replicas, replicas.roles, Drawn(replicas)

    def differs(self, node: cst.CSTNode) -> bool:
        """Whether a value is a replica's own."""
        return self._state(node) in _DIFFERENT

    def of_rank(self, test: cst.CSTNode) -> bool:
        """Whether a condition is computed from the rank."""
        return any(
            isinstance(n, cst.BaseExpression) and self.replicas.number(n) in PLACES for n in walk(test)
        )

    def _state(self, node: cst.CSTNode | None) -> State:
        if node is None:
            return State.SAME
        if isinstance(node, cst.Name):
            return self._asked(node, lambda: self._name(node))
        if isinstance(node, cst.Attribute):
            return self._asked(node, lambda: self._attribute(node))
        if isinstance(node, cst.Call):
            return self._asked(node, lambda: self._call(node))
        return self._composed(node)

    def _asked(self, node: cst.CSTNode, answer: Callable[[], State]) -> State:
        return self.roles.asked(("differs", id(node)), answer, State.SAME)

    def _composed(self, node: cst.CSTNode) -> State:
        if isinstance(node, (cst.Lambda, cst.BaseString)):
            return State.SAME
        if isinstance(node, cst.DictElement):
            return _timeless(self._greatest(children(node)))
        return self._greatest(children(node))

    def _greatest(self, nodes: Iterable[cst.CSTNode | None]) -> State:
        return max((self._state(n) for n in nodes), default=State.SAME)

    # ---- names

    def _name(self, node: cst.Name) -> State:
        scope = self.roles.index(node).scope_of(node).owner(node.value)
        if scope is None:
            return State.SAME
        if (scope.node, node.value) in self._reduced:
            return State.REDUCED
        found = [self._binding(b) for b in self.roles.bindings(node)]
        return max([*found, _timeless(self._greatest(self._stored(scope, node)))], default=State.SAME)

    def of_master(self, test: cst.CSTNode) -> bool:
        """Whether the master alone has the answer to a condition, the others what it was before."""
        names = (n for n in walk(test) if isinstance(n, cst.Name))
        return any(self._given_by_master(name) for name in names)

    def found_by_master(self, value: cst.CSTNode) -> bool:
        """Whether the master alone computes a number, or reads it somewhere; settings all replicas have."""
        names = [n for n in walk(value) if isinstance(n, cst.Name) and self._given_by_master(n)]
        found = [b.piece for n in names for b in self.roles.bindings(n) if self._masters(b, n)]
        return any(isinstance(n, (cst.Call, cst.Subscript)) for p in found if p is not None for n in walk(p))

    def _given_by_master(self, name: cst.Name) -> bool:
        bindings = self.roles.bindings(name)
        if self._name(name) is State.REDUCED:
            return False
        values = [b.value for b in bindings if not b.path]
        chosen = any(isinstance(v, cst.IfExp) and self._for_master(v.test) for v in values)
        return chosen or len({self._masters(b, name) for b in bindings}) > 1

    def _masters(self, binding: Binding, node: cst.Name) -> bool:
        """Whether the master alone gives a name a value that it has at a place which others reach."""
        index = self.roles.index(node)
        inner = (self.roles.index(binding.node).ancestors(binding.node)) if binding.how is How.ASSIGN else ()
        guards = (outer for outer in inner if isinstance(outer, cst.If) and self._for_master(outer.test))
        return any(not index.within(node, guard) for guard in guards)

    def _for_master(self, test: cst.BaseExpression) -> bool:
        master = self.replicas.master(test)
        return master is not None and master.only

    def _attribute(self, node: cst.Attribute) -> State:
        """An attribute of an object: what any method gives it, unless one of them reduces it."""
        if self.roles.path(node):
            return State.SAME
        computed = self._property(node)
        if computed is not None:
            return self._returned(computed)
        if node.attr.value in self._reduced_attributes:
            return State.REDUCED
        given = self.roles.program.attributes.get(node.attr.value, ())
        found = [self._set(b, node) for b in given if self._of_one(b.node, node)]
        if State.REDUCED in found:
            return State.REDUCED
        return max([*found, State.SAME if found else self._state(node.value)])

    def _set(self, binding: Binding, node: cst.Attribute) -> State:
        """What a binding makes of an attribute; a clock's reading is one of its own class alone."""
        state = self._binding(binding)
        owners = [self.roles.index(n).class_of(n) for n in (binding.node, node)]
        objects = [item.node for item in self._objects(node.value)]
        return state if owners[0] in (owners[1], *objects) else _timeless(state)

    def _of_one(self, target: cst.CSTNode, node: cst.Attribute) -> bool:
        """Whether what an assignment gives an attribute to may be the object whose attribute is read."""
        if not isinstance(target, cst.Attribute):
            return True
        theirs, mine = (known(self.roles.facts(n.value)) for n in (target, node))
        if not theirs or not mine:
            return True
        return any(self._alike(a, b) for a in theirs for b in mine)

    def _alike(self, one: Fact, other: Fact) -> bool:
        if isinstance(one.node, cst.ClassDef) and isinstance(other.node, cst.ClassDef):
            return related(self.roles, one.node, other.node)
        return one.kind is other.kind or {one.kind, other.kind} == {Kind.MODEL, Kind.INSTANCE}

    def _property(self, node: cst.Attribute) -> cst.FunctionDef | None:
        """The method that computes an attribute of an object of the program."""
        for item in self._objects(node.value):
            if isinstance(item.node, cst.ClassDef):
                return find_method(self.roles, item.node, node.attr.value)
        return None

    def _binding(self, binding: Binding) -> State:
        if binding.how is How.PARAMETER:
            return self._parameter(binding)
        if binding.how is How.ITERATE and binding.value is not None:
            counted = {f.kind for f in self.roles.element(binding.value, binding.path)} == {Kind.NUMBER}
            return State.SAME if counted else self._iterated(binding.value)
        if binding.how not in (How.ASSIGN, How.AUGMENT, How.ENTER):
            return State.SAME
        return max(self._state(binding.piece), self._condition(binding.statement))

    def _condition(self, statement: cst.CSTNode) -> State:
        """A value that is given under a condition differs where the condition does."""
        tests = []
        for outer in self.roles.index(statement).ancestors(statement):
            if isinstance(outer, (cst.FunctionDef, cst.Lambda)):
                break
            if isinstance(outer, cst.If) and self.replicas.master(outer.test) is None:
                tests.append(outer.test)
        state = self._greatest(tests)
        return state if state in _DIFFERENT else State.SAME

    def _parameter(self, binding: Binding) -> State:
        function = binding.statement
        if not isinstance(function, cst.FunctionDef):
            return State.SAME
        params = parameters(function)
        position = next((i for i, p in enumerate(params) if p is binding.node), None)
        if position is None:
            return State.SAME
        name, calls = params[position].name.value, sites(self.roles, function)
        found = self._greatest(value_of(site, name, position - taken) for site, taken in calls)
        return found if found is State.OWN else min(found, State.REDUCED)  # options hold seeds, meters times

    def _objects(self, node: cst.BaseExpression) -> Facts:
        return of_kind(self.roles.facts(node), Kind.INSTANCE)

    def _iterated(self, value: cst.BaseExpression) -> State:
        loaders = loaders_behind(self.roles, value)
        if loaders:
            return State.OWN if any(map(self._sharded, loaders)) else State.SAME
        return self._state(value)

    def _sharded(self, loader: cst.BaseExpression) -> bool:
        """Whether each replica draws its own batches from a loader."""
        calls = [c for c in self.roles.origins(loader, Kind.LOADER) if isinstance(c, cst.Call)]
        return any(self._samples(c) for c in calls)

    def _samples(self, call: cst.Call) -> bool:
        if not self.replicas.native:  # training loaders are to be parted, others shuffle for themselves
            return call in self.replicas.feeds.parted or self.replicas.feeds.shuffles(call)
        samplers = [value_of(call, "sampler", 3), value_of(call, "batch_sampler", 4)]
        origins = {o for s in samplers if s is not None for o in self.roles.origins(s, Kind.SAMPLER)}
        return any(isinstance(o, cst.Call) and self.roles.path(o.func) in _SAMPLERS for o in origins)

    def _stored(self, scope: Scope, name: cst.Name) -> Iterator[cst.CSTNode]:
        """What is put into a container; an object of the program keeps it in attributes."""
        index = self.roles.index(scope.node)
        for use in index.named_of(scope, name.value):
            call = index.parent(index.parent(use) or use)
            if self._objects(use):
                return
            if isinstance(call, cst.Call) and receiver(call) is use and method(call) in _STORES:
                yield from (arg.value for arg in call.args)
            key, assign = _key(index, use), index.parent(call) if isinstance(call, cst.AssignTarget) else None
            if isinstance(assign, cst.Assign) and key is not None and _may_be(key, _key(index, name)):
                yield assign.value

    # ---- calls

    def _call(self, call: cst.Call) -> State:
        path = self.roles.path(call.func)
        if path in _COUNTS or path.startswith(_SHARED) or (method(call) == "keys" and not call.args):
            return State.SAME
        if path in _CLOCKS:
            return State.TIMED
        if path.startswith("torch.utils.data."):
            return State.SAME  # made-up data stand for such as all replicas read
        if self.drawn.by(call):
            return State.DRAWN
        if short(path):
            return State.REDUCED if short(path) in _EQUALIZES else State.SAME
        functions = [f.node for f in self.roles.facts(call.func) if f.kind is Kind.FUNCTION]
        if functions:
            return max(self._given_back(call, f) for f in functions if f is not None)
        values = [arg.value for arg in call.args]
        base = receiver(call)
        held = base if base is not None and Kind.MODEL not in self.roles.kinds(base) else None
        given = self._greatest(values)
        return max(given if path in _NUMBERS else _timeless(given), self._state(held))

    def _given_back(self, call: cst.Call, function: cst.CSTNode) -> State:
        """What a call gives back: the same where only other calls of the function bring what differs."""
        state = self._returned(function)
        if state < State.DRAWN or not isinstance(function, cst.FunctionDef):
            return state
        others = any(self._brings(site) for site, _ in sites(self.roles, function) if site is not call)
        return State.SAME if others and not self._brings(call) else state

    def _brings(self, call: cst.Call) -> bool:
        """Whether a call is handed something that differs."""
        values = [arg.value for arg in call.args]
        loaders = [loader for v in values for loader in loaders_behind(self.roles, v)]
        return any(map(self._sharded, loaders)) or any(self._state(v) >= State.DRAWN for v in values)

    def _returned(self, function: cst.CSTNode) -> State:
        if not isinstance(function, cst.FunctionDef):
            return State.SAME
        found = [e for e in self.roles.exits(function) if isinstance(e, cst.Return)]
        found = [e for e in found if not self._for_one_process(e)] or found
        return max((max(self._state(e.value), self._condition(e)) for e in found), default=State.SAME)

    def _for_one_process(self, leaving: cst.Return) -> bool:
        """Whether a function is left because of the number of processes: ``if world_size < 2: return x``."""
        index = self.roles.index(leaving)
        function, outer = index.function_of(leaving), index.ancestors(leaving)
        tests = [a.test for a in outer if isinstance(a, cst.If) and index.function_of(a) is function]
        parts = (n for t in tests for n in walk(t) if isinstance(n, cst.BaseExpression))
        return any(self.replicas.number(n) in SIZES for n in parts)

    # ---- collectives

    @cached_property
    def _collectives(self) -> list[cst.BaseExpression]:
        """What a collective makes the same on all replicas: its first argument, or the elements of a list."""
        calls = (c for name in _EQUALIZES for c in self.roles.program.calls.get(name, ()))
        named = [c for c in calls if short(self.roles.path(c.func)) in _EQUALIZES]
        values = [c.args[0].value for c in named if c.args]
        return [n for v in values for n in walk(v) if isinstance(n, (cst.Name, cst.Attribute))]

    @cached_property
    def _reduced(self) -> set[tuple[cst.CSTNode, str]]:
        names = [n for n in self._collectives if isinstance(n, cst.Name)]
        owners = [(self.roles.index(n).scope_of(n).owner(n.value), n.value) for n in names]
        return {(owner.node, name) for owner, name in owners if owner is not None}

    @cached_property
    def _reduced_attributes(self) -> set[str]:
        return {n.attr.value for n in self._collectives if isinstance(n, cst.Attribute)}


def _key(index: ModuleIndex, name: cst.CSTNode) -> cst.BaseExpression | None:
    """``"loss"`` for the ``seen`` of ``seen["loss"]``."""
    part = index.parent(name)
    if not isinstance(part, cst.Subscript) or part.value is not name or len(part.slice) != 1:
        return None
    entry = part.slice[0].slice
    return entry.value if isinstance(entry, cst.Index) else None


def _may_be(stored: cst.BaseExpression, read: cst.BaseExpression | None) -> bool:
    """Whether what was stored for a key is a part of what is read; settings lie beside others."""
    names = string_value(stored), string_value(read)
    return names[0] is None or (read is not None and names[1] in (names[0], None))


def _timeless(state: State) -> State:
    """A state where readings of a clock are not followed further."""
    return State.SAME if state is State.TIMED else state
