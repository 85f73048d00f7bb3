"""The device variables that a script gets: one line where the device is needed several times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.findings import Rule
from xla_transforms.placing.flags import Flags
from xla_transforms.placing.moves import wants_device
from xla_transforms.placing.variables import Variables
from xla_transforms.roles import Kind
from xla_transforms.scopes import parameters
from xla_transforms.tree import dotted, walk

if TYPE_CHECKING:
    from xla_transforms.context import Context

VARIABLE = Rule(
    "XLA103",
    "device-variable",
    "A function that names the device several times gets one variable for it.",
    "torch_xla.device() is the process's own device (pytorch/xla v2.9.0, torch_xla/torch_xla.py).",
)
NEW = "device"


class Introduced:
    """Decides for the module and for each outermost function whether it gets a variable, and where."""

    def __init__(self, context: Context, variables: Variables, flags: Flags) -> None:
        self.context = context
        self.variables = variables
        self.flags = flags
        self.index = context.index
        self.roles = context.roles
        self._anchors: dict[cst.CSTNode, cst.CSTNode | None] = {}

    def at(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` may use a new variable; plans the line that binds it."""
        if self.flags.guard_of(node) is not None:
            return False
        for region in self._regions_of(node):
            anchor = self._anchor(region)
            if anchor is not None and self._sees(region, anchor, node):
                return True
        return False

    def _regions_of(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Where a variable for ``node`` may be bound: the module, or the outermost function around it."""
        yield self.index.source.module
        outer = [a for a in self.index.ancestors(node) if isinstance(a, cst.FunctionDef)]
        if outer:
            yield outer[-1]

    def _sees(self, region: cst.CSTNode, anchor: cst.CSTNode, node: cst.CSTNode) -> bool:
        owner = self.index.scope_of(node).owner(NEW)
        if owner is not None:
            return False
        if isinstance(region, cst.Module) and self.index.function_of(node) is not None:
            return True
        return anchor is node or self.index.within(node, anchor) or self.variables.precedes(anchor, node)

    def _anchor(self, region: cst.CSTNode) -> cst.CSTNode | None:
        """The statement above which a region binds its new variable; ``None`` where it gets none."""
        if region not in self._anchors:
            self._anchors[region] = None
            needs = self._needs.get(region, [])
            if self._worth_it(region, needs):
                anchor = self._first_statement(region, needs)
                self._anchors[region] = anchor
                if anchor is not None:
                    with self.context.plan.apart():
                        change = self.context.plan.change(VARIABLE, anchor, "one variable holds the device")
                    change.before(anchor, f"{NEW} = {change.spell(self.context.target.device)}")
        return self._anchors[region]

    def _worth_it(self, region: cst.CSTNode, needs: list[cst.CSTNode]) -> bool:
        if isinstance(region, cst.Module):
            everywhere = [n for found in self._needs.values() for n in found]
            free = not any(n for n in self.index.named(NEW) if self._unbound_use(n))
            return bool(needs) and len(everywhere) > 1 and free and not self._bound_in(region)
        free = not any(self.index.within(n, region) for n in self.index.named(NEW))
        assert isinstance(region, cst.FunctionDef)
        return len(needs) > 1 and free and not any(p.name.value == NEW for p in parameters(region))

    def _unbound_use(self, name: cst.Name) -> bool:
        owner = self.index.scope_of(name).owner(NEW)
        return owner is None or isinstance(owner.node, cst.Module)

    def _bound_in(self, region: cst.CSTNode) -> bool:
        return bool(self.index.scopes[region].bindings.get(NEW))

    def _first_statement(self, region: cst.CSTNode, needs: list[cst.CSTNode]) -> cst.CSTNode | None:
        if isinstance(region, cst.Module):
            return self._first_of_module(region, needs)
        first = min(needs, key=self.index.source.offsets)
        return self._in_block(first, region)

    def _in_block(self, node: cst.CSTNode, region: cst.CSTNode) -> cst.CSTNode | None:
        """The statement of a function's own block that holds a node."""
        child = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, cst.IndentedBlock) and self.index.parent(parent) is region:
                return child
            child = parent
        return None

    def _first_of_module(self, region: cst.Module, needs: list[cst.CSTNode]) -> cst.CSTNode | None:
        """The first top-level statement that needs the device, or calls something that does."""
        users = self._users()
        wanted = set(needs)
        for statement in region.body:
            if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
                continue
            for node in walk(statement):
                used = isinstance(node, cst.Name) and node.value in users
                if node in wanted or used:
                    return statement if not _is_main(statement) else None
        return None

    def _users(self) -> set[str]:
        """The functions and classes of the module that need the device, by themselves or through others."""
        body, kinds = self.index.source.module.body, (cst.FunctionDef, cst.ClassDef)
        definitions = {d.name.value: d for d in body if isinstance(d, kinds)}
        inside = {n for found in self._needs.values() for n in found}
        mentions = {
            name: {x.value for x in walk(d) if isinstance(x, cst.Name)} for name, d in definitions.items()
        }
        users = {name for name, d in definitions.items() if any(self.index.within(n, d) for n in inside)}
        while grown := {n for n, names in mentions.items() if n not in users and names & users}:
            users |= grown
        return users

    @cached_property
    def _needs(self) -> dict[cst.CSTNode, list[cst.CSTNode]]:
        """What needs a device and sees no variable for it, by module or outermost function."""
        found: dict[cst.CSTNode, list[cst.CSTNode]] = defaultdict(list)
        for node in dict.fromkeys(self._wanting()):
            if self.roles.index(node) is not self.index or self.roles.dead(node):
                continue
            if self.variables.visible(node) is None and self.flags.guard_of(node) is None:
                *_, region = self._regions_of(node)
                found[region].append(node)
        return found

    def _wanting(self) -> Iterator[cst.CSTNode]:
        loops = self.context.loops
        for call in self.index.all(cst.Call):
            assert isinstance(call, cst.Call)
            if wants_device(self.roles, call) and not loops.needless(call):
                yield call
        for loop in loops.all:
            if loop.wrapped and loop.loader is not None:
                made = self.roles.origins(loop.loader, Kind.LOADER)
                yield from made or [loop.node]


def _is_main(statement: cst.CSTNode) -> bool:
    test = statement.test if isinstance(statement, cst.If) else None
    return isinstance(test, cst.Comparison) and dotted(test.left) == "__name__"
