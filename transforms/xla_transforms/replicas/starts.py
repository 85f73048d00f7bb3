"""Where the processes of a program start, and what each of them runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

import libcst as cst

from xla_transforms.loops.hidden import HiddenSteps
from xla_transforms.replicas.hand_updates import hand_updates
from xla_transforms.replicas.inherited import inherited
from xla_transforms.replicas.reach import comes_to, leading, running
from xla_transforms.replicas.repeats import Repeats
from xla_transforms.replicas.scripts import Layout, asks_on_import, main_guard
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.classes import find_method, is_optimizer
from xla_transforms.roles.ranks import INDEX, given
from xla_transforms.roles.spawns import SPAWNERS, Spawn, functions, skipped, spawns
from xla_transforms.scopes import ModuleIndex, parameters
from xla_transforms.tree import method, receiver

# torch_xla.launch starts processes by multiprocessing's spawn (pytorch/xla v2.9.0, _internal/pjrt.py).
_IN_NOTEBOOK = "the function that the processes run is a notebook's, from which they cannot import it"


class Style(Enum):
    """How the processes of a native program come to be."""

    SINGLE = "single"  # there is one
    SPAWN = "spawn"  # torch.multiprocessing starts them
    LAUNCHER = "launcher"  # torchrun, srun, mpirun ... start the script once for each


@dataclass(eq=False)
class Launch:
    """A start of processes that run ``function``: ``None`` where that is not known, or not the program's."""

    spawn: Spawn
    function: cst.FunctionDef | None
    skipped: int = 0  # parameters that have their value before: ``self`` of a method of an object

    @property
    def call(self) -> cst.Call:
        return self.spawn.call

    @property
    def values(self) -> list[cst.BaseExpression] | None:
        """What each process is given behind its number, ``None`` where it is not seen."""
        return self.spawn.values

    @property
    def count(self) -> cst.BaseExpression | None:
        """How many processes there are."""
        return self.spawn.count

    @property
    def parameters(self) -> list[cst.Param]:
        """The function's parameters that take ``values``, in their order."""
        return parameters(self.function)[1 + self.skipped :] if self.function is not None else []

    @property
    def gone(self) -> list[cst.CSTNode]:
        """The statements that only start the processes and wait for them, where that is more than a call."""
        made = [self.spawn.made] if self.spawn.made is not None else []
        return [*made, *self.spawn.statements]


@dataclass(eq=False)
class Entry:
    """A script that a launcher starts once for each process: its main guard, if it has one, and what else
    of its top level each process has to run."""

    guard: cst.If | None
    index: ModuleIndex
    layout: Layout

    @property
    def parts(self) -> list[cst.CSTNode]:
        """The statements that each process runs."""
        return [*self.layout.moved, *([self.guard] if self.guard is not None else [])]

    @property
    def obstacle(self) -> str:
        """Why no function can be made of it."""
        if self.guard is not None and (self.guard.orelse is not None or not _indented(self.guard)):
            return "the main guard has other ways, or stands on one line"
        return self.layout.obstacle


class Obstacle(NamedTuple):
    """What stands in the way of replicas: the module it is in, if it is in one, why, and what to do."""

    module: ModuleIndex | None
    why: str
    advice: str = ""


class Starts:
    """Finds them in one program.

    ``outside`` names the function that a launcher is to call in each migrated process. Then nothing of the
    program starts processes: each runs what the native one that started them did. ``scaling`` tells that
    the target has a gradient scaler of its own, so that scalers of libraries stay what they are.
    """

    def __init__(self, roles: Roles, outside: str = "", *, scaling: bool = False) -> None:
        self.roles, self.outside, self.scaling = roles, outside, scaling

    @cached_property
    def launches(self) -> list[Launch]:
        """The calls of ``mp.spawn`` and its like, and the loops that start processes which join a group."""
        found = [
            Launch(spawn, run, skipped(self.roles, spawn, run) if run is not None else 0)
            for spawn in spawns(self.roles)
            for run in self._functions_run(spawn)
        ]
        spawned = {one for one in found if self.roles.path(one.call.func) in SPAWNERS}
        return [one for one in found if one in spawned or self.joins(one.function)]

    def _functions_run(self, spawn: Spawn) -> Sequence[cst.FunctionDef | None]:
        """What the processes of a start run: several functions where it is in one that is handed them."""
        nodes = functions(self.roles, spawn)
        found = [node for node in nodes if isinstance(node, cst.FunctionDef)]
        certain = self.roles.is_a(spawn.target, Kind.FUNCTION) and len(found) == len(nodes)
        return found if found and certain else [None]

    def joins(self, function: cst.FunctionDef | None) -> bool:
        """Whether what the processes run comes to join a process group."""
        sites = self.roles.program.calls.get("init_process_group", ())
        return function is not None and function in leading(self.roles, sites)

    @cached_property
    def obstacle(self) -> str:
        """Why the starts of the program cannot be written anew; empty where they can."""
        return self.blocked[0].why if self.blocked else ""

    @cached_property
    def blocked(self) -> list[Obstacle]:
        """Each obstacle, the starts themselves first."""
        launches = [Obstacle(self.roles.index(one.call), self._hindered(one)) for one in self.launches]
        found = [one for one in launches if one.why]
        if not self.entries and (self.outside or not self.launches):
            why = "nothing is known to launch the processes: no script " + self._does
            return [*found, Obstacle(None, why)]
        entries = [Obstacle(e.index, self._kept(e)) for e in self.entries]
        return [*found, *(one for one in entries if one.why), *self._once, *self._unreduced]

    def _hindered(self, launch: Launch) -> str:
        """Why a start cannot be written anew; empty where it can."""
        if launch.function is None:
            return "it is not known what function the processes run"
        index = self.roles.index(launch.function)
        if not self._importable(launch.function):
            line = index.source.span(launch.function).line
            name = launch.function.name.value
            return f"{name} (line {line}), run by the processes, stands in a function: it cannot be pickled"
        if index.source.is_notebook:
            return _IN_NOTEBOOK
        if launch.spawn.obstacle or not launch.spawn.copies:
            return launch.spawn.obstacle
        return inherited(self.roles, launch.spawn, launch.function, self.launching)

    def _importable(self, function: cst.FunctionDef) -> bool:
        """Whether processes can import a function: it stands in no other one; a method's class neither."""
        around = self.roles.index(function).ancestors(function)
        return not any(isinstance(outer, cst.FunctionDef) for outer in around)

    @property
    def _does(self) -> str:
        if self.launches:
            return "starts them"
        return "joins a process group" if self.roles.program.replicated else "trains"

    def _kept(self, entry: Entry) -> str:
        """Why no function can be made of a script; empty where one can."""
        return _IN_NOTEBOOK if entry.index.source.is_notebook else entry.obstacle or self._taken(entry)

    def _taken(self, entry: Entry) -> str:
        bound = self.outside in entry.index.scopes[entry.index.source.module].bindings
        return f"{self.outside}, which the launcher calls, is a name of the script already" if bound else ""

    @property
    def _once(self) -> list[Obstacle]:
        """What the starting process alone did, and each process of a launcher could not do as well."""
        call = self.repeats.obstacle if self.outside and self.launches else None
        if call is None:
            return []
        index = self.roles.index(call)
        text, line = index.source.code(call.func), index.source.span(call).line
        return [Obstacle(index, f"{text}() (line {line}) ran once, in the process that started the others")]

    @property
    def _unreduced(self) -> list[Obstacle]:
        """Steps out of sight or by hand, before which nothing could reduce the gradients."""
        hidden = HiddenSteps.of(self.roles)
        found = [self._hides(call) for call in hidden.calls if self.scaling or not hidden.known(call)]
        by_hand = [self._written(node) for node in hand_updates(self.roles)[:1]]
        never = not (by_hand or hidden.calls) and self.roles.program.replicated
        if never and (call := self._never_stepped()) is not None:
            found = [self._hides(call)]
        return [*found, *by_hand]

    def _written(self, node: cst.CSTNode) -> Obstacle:
        index = self.roles.index(node)
        line = index.source.span(node).line
        why = f"line {line} steps the parameters by hand: nothing reduces their gradients"
        advice = "let an optimizer of torch.optim take the step, before which gradients are reduced"
        return Obstacle(index, why, advice)

    def _hides(self, call: cst.Call) -> Obstacle:
        index = self.roles.index(call)
        name, line = index.source.code(call.func), index.source.span(call).line
        why = f"the optimizer's step behind {name}() (line {line}) is out of sight: nothing could reduce"
        advice = "write the step there, or migrate what holds it along"
        return Obstacle(index, f"{why} the gradients before it", advice)

    def _never_stepped(self) -> cst.Call | None:
        """A backward pass, or what comes before one, of a program in which nothing may be a step."""
        program = self.roles.program
        steps = [c for c in program.calls.get("step", ()) if method(c) == "step" and self._may_step(c)]
        if steps or program.calls.get("all_reduce"):
            return None
        zeroing = program.calls.get("zero_grad", ())
        zeroed = [c for c in zeroing if self.roles.is_a(receiver(c), Kind.OPTIMIZER)]
        training = [*program.calls.get("backward", ()), *zeroed]
        return next((c for c in training if receiver(c) is not None and not self.roles.dead(c)), None)

    def _may_step(self, call: cst.Call) -> bool:
        stepped = receiver(call)
        plain = self.roles.kinds(stepped) <= {Kind.NAME, Kind.OPTIMIZER, Kind.SCALER}
        return plain or is_optimizer(self.roles, stepped)

    @cached_property
    def repeats(self) -> Repeats:
        """What the starting process did and each process does where a launcher starts them."""
        own = {launch.function for launch in self.launches} - {None}
        gone = [node for launch in self.launches for node in launch.gone]
        parts = [part for entry in self.entries if self.spawns(entry) for part in entry.parts]
        return Repeats(self.roles, parts, own, gone)

    @cached_property
    def several_hosts(self) -> bool:
        """Whether the number that spawn gives a process is but a part of its rank: ``node * gpus + gpu``."""
        modules = self.roles.program.modules.values() if self.launches else ()
        sums = (n for index in modules for n in index.all(cst.BinaryOperation, cst.AugAssign))
        return any(self._adds_index(n) for n in sums)

    def _adds_index(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.AugAssign):
            added = isinstance(node.operator, cst.AddAssign) and self._is_index(node.value)
            values = [b.value for b in given(self.roles, node.target)] if added else []
            return any(_is_product(value) for value in values)
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Add):
            return False
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if _is_product(other) and self._is_index(side):
                return True
        return False

    def _is_index(self, node: cst.BaseExpression) -> bool:
        return any(f.detail == INDEX for f in self.roles.facts(node))

    @cached_property
    def launching(self) -> set[cst.FunctionDef]:
        """The functions that run in the starting process: they start the others, or call what does."""
        found: set[cst.FunctionDef] = set()
        waiting = [running(self.roles, launch.call) for launch in self.launches if not self.outside]
        waiting += [self._constructor(launch) for launch in self.launches if not self.outside]
        while waiting:
            function = waiting.pop()
            if function is not None and function not in found:
                found.add(function)
                waiting += [running(self.roles, site) for site, _ in callers(self.roles, function)]
        return found

    def _constructor(self, launch: Launch) -> cst.FunctionDef | None:
        """What made the object whose method the processes run: they are handed the object."""
        if not launch.skipped or launch.function is None:
            return None
        owner = self.roles.index(launch.function).class_of(launch.function)
        return find_method(self.roles, owner, "__init__") if isinstance(owner, cst.ClassDef) else None

    def before(self, node: cst.CSTNode) -> bool:
        """Whether a node runs before the migrated program has processes: what touches a device must not."""
        if sites := self._later(node):
            with self.roles.guarded(("before", sites[0])) as free:
                return free and any(self.before(site) for site in sites)
        function = running(self.roles, node)
        if function is not None:
            return function in self.launching
        around = {node, *self.roles.index(node).ancestors(node)}
        if any(part in around for entry in self.entries for part in entry.parts):
            return False
        module = self.roles.index(node)
        return not self._alone(module) and not self._imported_late(module)

    def _alone(self, module: ModuleIndex) -> bool:
        """Whether a module is a script beside those that start processes: none are started behind its top."""
        if self.roles.program.imported(module.name):
            return False
        starting = [entry.index for entry in self.entries]
        return module not in (*starting, *(self.roles.index(one.call) for one in self.launches))

    def _imported_late(self, module: ModuleIndex) -> bool:
        """Whether a module that asks for a rank is imported by the processes alone."""
        if not self.entries or not asks_on_import(self.roles, module):
            return False
        places = list(self.roles.program.imports_of(module))
        with self.roles.guarded(("late", module.name)) as free:
            return free and bool(places) and not any(map(self.before, places))

    def _later(self, node: cst.CSTNode) -> list[cst.Call]:
        """The calls that run what stands in a lambda: of its name, or of the data class that it is for."""
        index = self.roles.index(node)
        around = (a for a in index.ancestors(node) if isinstance(a, (cst.Lambda, cst.FunctionDef)))
        inner = next(around, None)
        if not isinstance(inner, cst.Lambda):
            return []
        holder = index.parent(inner)
        made: cst.CSTNode | None = inner
        name = _target(holder)
        if isinstance(holder, cst.Arg) and getattr(holder.keyword, "value", "") == "default_factory":
            made = index.class_of(inner)
            name = made.name.value if isinstance(made, cst.ClassDef) else ""
        calls = self.roles.program.calls.get(name, ()) if name else ()
        return [c for c in calls if any(f.node is made for f in self.roles.facts(c.func))]

    @cached_property
    def entries(self) -> list[Entry]:
        """The scripts whose processes a launcher starts: in the migrated program, where these are more.

        Of a program for one process: those that train.
        """
        found = []
        for index in filter(self._trains, self.roles.program.modules.values()):
            guard = main_guard(index)
            entry = Entry(guard, index, Layout.of(self.roles, index, guard))
            if self.spawns(entry):
                found += [entry] if self.outside else []
            elif self._runs(entry):
                found.append(entry)
        return found

    def _trains(self, module: ModuleIndex) -> bool:
        """Whether anything at a module's top comes to train, or to start what does: few modules do."""
        sites = self._launching_calls | self._training_calls
        return any(comes_to(self.roles, part, sites) for part in _run_at_top(module.source.module.body))

    def spawns(self, entry: Entry) -> bool:
        """Whether a script starts its processes itself."""
        parts = _run_at_top(entry.parts)
        return any(comes_to(self.roles, part, self._launching_calls) for part in parts)

    def _runs(self, entry: Entry) -> bool:
        """Whether what a script does joins a process group or, in one process, trains."""
        parts = _run_at_top(entry.parts)
        return any(comes_to(self.roles, part, self._training_calls) for part in parts)

    @cached_property
    def _launching_calls(self) -> frozenset[cst.Call]:
        return frozenset(launch.call for launch in self.launches)

    @cached_property
    def _training_calls(self) -> frozenset[cst.Call]:
        name = "init_process_group" if self.roles.program.replicated else "backward"
        return frozenset(self.roles.program.calls.get(name, ()))


def _run_at_top(statements: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """The statements that do something where they stand."""
    return (s for s in statements if not isinstance(s, (cst.FunctionDef, cst.ClassDef)))


def _indented(guard: cst.If) -> bool:
    return isinstance(guard.body, cst.IndentedBlock)


def _is_product(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply)


def _target(assign: cst.CSTNode | None) -> str:
    """The name that an assignment gives a value to."""
    target = assign.targets[0].target if isinstance(assign, cst.Assign) else None
    return target.value if isinstance(target, cst.Name) else ""
