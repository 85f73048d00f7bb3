"""What a step closure is handed: whatever may be another thing by the time it runs.

A closure binds the names it uses late (``xm.add_step_closure`` runs it at the next barrier), so all that an
iteration binds or changes before that goes through its arguments.
Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``add_step_closure``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.loops.effects import Effect
from xla_transforms.loops.units import Unit
from xla_transforms.roles import Kind
from xla_transforms.scopes import How
from xla_transforms.tree import method, receiver, walk

if TYPE_CHECKING:
    from xla_transforms.loops.deferral import Deferral

_STEADY = {
    Kind.WRITER, Kind.NAME, Kind.FUNCTION, Kind.CLASS, Kind.ARGUMENTS, Kind.NUMBER, Kind.STRING, Kind.BOOLEAN,
    Kind.LOADER, Kind.DATASET,
}  # fmt: skip
_FILLERS = frozenset({"append", "extend", "update", "clear", "pop", "add"})


@dataclass(eq=False)
class Run:
    """Neighbouring statements of one block that go into one step closure together."""

    units: list[Unit]
    names: list[str] = field(default_factory=list)  # what is handed over, in order of appearance
    lifted: dict[cst.BaseExpression, str] = field(default_factory=dict)  # evaluated at once, by new name
    outer: list[str] = field(default_factory=list)  # names of the function around that it binds


class Handover:
    """What a step closure is handed: whatever may be another thing by the time it runs."""

    def __init__(self, deferral: Deferral, run: Run) -> None:
        self.deferral, self.run = deferral, run
        self.index, self.roles = deferral.index, deferral.roles
        self.binds = {name for unit in run.units for name in unit.binds}
        self.later = self._later()

    def _later(self) -> list[Unit]:
        """The units that run after the closure was added and before it runs, other closures left out."""
        d, last = self.deferral, self.run.units[-1]
        offsets = self.index.source.offsets
        end = offsets(last.statement)[1]
        inner = [a for a in self.index.ancestors(last.statement) if isinstance(a, (cst.For, cst.While))]
        around = inner[: next((i for i, a in enumerate(inner) if a is d.loop.node), 0)]
        start = min((offsets(a)[0] for a in around), default=end)
        skipped = {*self.run.units, *d.moved}
        return [
            u
            for u in d.units
            if u not in skipped
            and not u.behind
            and offsets(u.statement)[0] >= start
            and not self._around(u, last)
        ]

    def _around(self, unit: Unit, last: Unit) -> bool:
        return self.index.within(last.statement, unit.statement)

    def arrange(self) -> bool:
        self.run.outer = sorted(n for n in self.binds if self._bound_outside(n))
        for unit in self.run.units:
            for place in self.deferral.reads.computed(unit.statement):
                if not self._hand_over_computed(place):
                    return False
        return all(self._judge(node) for node in self._uses())

    def _bound_outside(self, name: str) -> bool:
        """Whether a name that the run binds is used by anything else."""
        d = self.deferral
        others = [u for u in d.units if u not in self.run.units]
        return any(name in u.mentions for u in others) or d.used_outside({name})

    def _hand_over_computed(self, place: cst.BaseExpression) -> bool:
        """What the device must compute is traced with the step: in a closure it would run by itself."""
        mentions = set(self.deferral.parts.mentions(place))
        stores = {root for unit in self.run.units for root in unit.stores}
        if (self.binds | stores) & mentions or mentions & {*self.deferral.sums, *self.deferral.deferred}:
            return False
        if self._in_body(place) and self.deferral.loops.effects.of(place):
            return False
        self.run.lifted[place] = self._free(place, self._computed_name(place))
        return True

    def _in_body(self, place: cst.BaseExpression) -> bool:
        line = self.index.statement_of(place)
        return all(unit.statement is not line for unit in self.run.units)

    def _computed_name(self, place: cst.BaseExpression) -> str:
        """``output_argmax`` for ``output.argmax(1)``, ``first_stack`` for ``torch.stack([first])``."""
        while method(place) in ("detach", "float") and (base := receiver(place)) is not None:
            place = base
        path = self.roles.path(place.func) if isinstance(place, cst.Call) else ""
        names = [n for n in walk(place) if isinstance(n, cst.Name) and self.deferral.parts.is_use(n)]
        roots = [n.value for n in names if not self.roles.path(n) and n.value != "self"]
        last = path.rpartition(".")[2] or method(place) or "value"
        return f"{roots[0]}_{last}" if roots else last

    def _judge(self, node: cst.Name) -> bool:
        name = node.value
        if any(self.index.within(node, lifted) for lifted in self.run.lifted):
            return True
        if name in self.binds:
            return True
        if name == "self":
            return self._judge_place(node)
        if self._bound_by_closure(name):
            return False
        if self._bound_in_loop(name) or self._counter_of_outer_loop(name):
            if name not in self.run.names:
                self.run.names.append(name)
            return name in self.deferral.sums or not self._mutated(name)
        return self._judge_place(node)

    def _bound_by_closure(self, name: str) -> bool:
        """Whether an earlier closure of the iteration binds a name: it has no value yet to hand over."""
        first = self.run.units[0].statement
        offsets = self.index.source.offsets
        before = (u for u in self.deferral.moved if offsets(u.statement)[0] < offsets(first)[0])
        return any(name in unit.binds for unit in before)

    def _bound_in_loop(self, name: str) -> bool:
        scope = self.deferral.scope.owner(name)
        bindings = scope.bindings[name] if scope is not None else []
        return any(self.index.within(b.statement, self.deferral.loop.node) for b in bindings)

    def _counter_of_outer_loop(self, name: str) -> bool:
        scope = self.deferral.scope
        outer = {a for a in self.index.ancestors(self.deferral.loop.node) if isinstance(a, cst.For)}
        return any(b.statement in outer and b.how is How.ITERATE for b in scope.bindings.get(name, ()))

    def _mutated(self, name: str) -> bool:
        """Whether what a name holds is changed in place before the closure runs."""
        for unit in self.later:
            if name not in unit.mentions:
                continue
            for node in walk(unit.statement):
                if self._mutates(node, name):
                    return True
        return False

    def _mutates(self, node: cst.CSTNode, name: str) -> bool:
        if (
            isinstance(node, cst.AugAssign)
            and isinstance(node.target, cst.Name)
            and node.target.value == name
        ):
            return not self.deferral.parts.known_number(node.target)
        if isinstance(node, (cst.AssignTarget, cst.AugAssign)) and isinstance(node.target, cst.Subscript):
            return getattr(node.target.value, "value", "") == name
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            called = method(node)
            in_place = called in _FILLERS or (called.endswith("_") and not called.endswith("__"))
            return in_place and getattr(node.func.value, "value", "") == name
        return False

    # ---- objects that are not handed over but looked into

    def _judge_place(self, node: cst.Name) -> bool:
        """A name that means one object all along: may what is read of it change before the closure runs?"""
        owner = self._owner(node)
        if owner is None:
            return True
        kinds, root = self.roles.kinds(owner), self.deferral.parts.root(owner)
        if Kind.MODEL in kinds:
            return not any(self._works(u) for u in self.later)
        return not self._changes(root, kinds) or self._lift(self._place(node))

    def _owner(self, node: cst.Name) -> cst.BaseExpression | None:
        """The name, or of ``self`` its attribute."""
        if node.value != "self":
            return node
        parent = self.index.parent(node)
        return parent if isinstance(parent, cst.Attribute) else None

    def _works(self, unit: Unit) -> bool:
        done = self.deferral.loops.effects.of(unit.statement) if unit.whole else Effect.NONE
        return bool(done & (Effect.STEP | Effect.BACKWARD))

    def _changes(self, root: str, kinds: set[Kind]) -> bool:
        if kinds and kinds <= _STEADY and not root.startswith("self."):
            return False
        if kinds & {Kind.OPTIMIZER, Kind.SCHEDULER}:
            return any(self._schedules(u) for u in self.later)
        for unit in self.later:
            if root in unit.mentions or (root.startswith("self.") and self._called_with(unit, root)):
                return True
        return False

    def _schedules(self, unit: Unit) -> bool:
        for node in walk(unit.statement) if unit.whole else ():
            if isinstance(node, cst.Call) and method(node) == "step":
                base = node.func.value if isinstance(node.func, cst.Attribute) else None
                if Kind.OPTIMIZER not in self.roles.kinds(base):
                    return True
            if isinstance(node, cst.SimpleString) and node.value[1:-1] == "lr":
                return True
        return False

    def _called_with(self, unit: Unit, root: str) -> bool:
        attribute = root.removeprefix("self.")
        for node in walk(unit.statement) if unit.whole else ():
            for item in self.roles.facts(node.func) if isinstance(node, cst.Call) else ():
                if isinstance(item.node, cst.FunctionDef) and any(
                    isinstance(n, cst.Attribute) and n.attr.value == attribute for n in walk(item.node.body)
                ):
                    return True
        return False

    def _place(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The whole of ``optimizer.param_groups[0]["lr"]`` or ``scheduler.get_last_lr()[0]``."""
        current: cst.BaseExpression = node
        while True:
            parent = self.index.parent(current)
            inner = isinstance(parent, (cst.Attribute, cst.Subscript)) and parent.value is current
            if inner or (isinstance(parent, cst.Call) and parent.func is current):
                assert isinstance(parent, cst.BaseExpression)
                current = parent
            else:
                return current

    def _lift(self, place: cst.BaseExpression) -> bool:
        """Evaluate a place at once and hand over what it gave."""
        d = self.deferral
        calm = d.sinks.calm(place) and not d.reads.any_within(place) and not d.reads.on_device(place)
        statement = self.index.parent(place)
        if not calm or isinstance(statement, (cst.Expr, cst.AssignTarget, cst.AugAssign)):
            return False
        if self.binds & set(d.parts.mentions(place)) or isinstance(place, cst.Name):
            return False
        self.run.lifted[place] = self._name_for(place)
        return True

    def _name_for(self, place: cst.BaseExpression) -> str:
        words = [n.value for n in walk(place) if isinstance(n, cst.Name)]
        keys = [n.value[1:-1] for n in walk(place) if isinstance(n, cst.SimpleString)]
        last = keys[-1] if keys and keys[-1].isidentifier() else words[-1].removeprefix("get_")
        return self._free(place, last)

    def _free(self, place: cst.BaseExpression, name: str) -> str:
        """A new name, or the one that the same expression already has."""
        code = self.index.source.code(place)
        for other, given in self.run.lifted.items():
            if self.index.source.code(other) == code:
                return given
        taken = {n.value for u in self.run.units for n in self._uses_of(u)} | set(self.run.lifted.values())
        while name in taken or name in self.deferral.scope.bindings:
            name += "_now"
        return name

    def _uses(self) -> list[cst.Name]:
        return [name for unit in self.run.units for name in self._uses_of(unit)]

    def _uses_of(self, unit: Unit) -> list[cst.Name]:
        names = [n for n in walk(unit.statement) if isinstance(n, cst.Name)]
        return [n for n in names if n.value == "self" or self.deferral.parts.is_use(n)]
