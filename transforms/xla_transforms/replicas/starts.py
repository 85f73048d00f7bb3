"""Where the processes of a program start, and what each of them runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import libcst as cst

from xla_transforms.replicas.repeats import Repeats
from xla_transforms.replicas.scripts import Layout, reachable
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.facts import of_kind
from xla_transforms.roles.ranks import INDEX, SPAWNERS, arguments
from xla_transforms.scopes import ModuleIndex, parameters
from xla_transforms.tree import string_value, value_of, walk

# torch_xla.launch starts processes by multiprocessing's spawn (pytorch/xla v2.9.0, _internal/pjrt.py).
_IN_NOTEBOOK = "the function that the processes run is a notebook's, from which they cannot import it"


class Style(Enum):
    """How the processes of a native program come to be."""

    SINGLE = "single"  # there is one
    SPAWN = "spawn"  # torch.multiprocessing starts them
    LAUNCHER = "launcher"  # torchrun, srun, mpirun ... start the script once for each


@dataclass(eq=False)
class Launch:
    """A call that starts processes: what each runs, and what it is given behind its number.

    ``function`` is ``None`` where it is not one function of the program, ``values`` where they are not seen.
    """

    call: cst.Call
    function: cst.FunctionDef | None
    values: list[cst.BaseExpression] | None

    @property
    def parameters(self) -> list[cst.Param]:
        """The function's parameters that take ``values``, in their order."""
        return parameters(self.function)[1:] if self.function is not None else []

    @property
    def joins(self) -> bool:
        """Whether the call waits for the processes."""
        join = value_of(self.call, "join", 3)
        return join is None or (isinstance(join, cst.Name) and join.value == "True")


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


class Starts:
    """Finds them in one program.

    ``outside`` names the function that a launcher is to call in each migrated process. Then nothing of the
    program starts processes: each runs what the native one that started them did.
    """

    def __init__(self, roles: Roles, outside: str = "") -> None:
        self.roles, self.outside = roles, outside

    @cached_property
    def launches(self) -> list[Launch]:
        """The calls of ``mp.spawn`` and its like."""
        calls = self.roles.program.calls
        found = (*calls.get("spawn", ()), *calls.get("start_processes", ()))
        return [self._launch(c) for c in found if self.roles.path(c.func) in SPAWNERS]

    def _launch(self, call: cst.Call) -> Launch:
        target = value_of(call, "fn", 0)
        functions = of_kind(self.roles.facts(target), Kind.FUNCTION) if target is not None else frozenset()
        nodes = [f.node for f in functions]
        function = nodes[0] if len(nodes) == 1 and isinstance(nodes[0], cst.FunctionDef) else None
        return Launch(call, function, arguments(call))

    @cached_property
    def obstacle(self) -> str:
        """Why the starts of the program cannot be written anew; empty where they can."""
        for launch in self.launches:
            if launch.function is None:
                return "it is not known what function the processes run"
            if not isinstance(self.roles.index(launch.function).parent(launch.function), cst.Module):
                return "the function that the processes run is not one of a module"
            if self.roles.index(launch.function).source.is_notebook:
                return _IN_NOTEBOOK
            if not launch.joins:
                return "the processes are started and not waited for"
        if not self.entries and (self.outside or not self.launches):
            return "nothing is known to launch the processes: no script " + self._does
        if any(e.index.source.is_notebook for e in self.entries):
            return _IN_NOTEBOOK
        reasons = [e.obstacle or self._taken(e) for e in self.entries]
        return next(filter(None, reasons), "") or self._once

    @property
    def _does(self) -> str:
        if self.launches:
            return "starts them"
        return "joins a process group" if self.roles.program.replicated else "trains"

    def _taken(self, entry: Entry) -> str:
        bound = self.outside in entry.index.scopes[entry.index.source.module].bindings
        return f"{self.outside}, which the launcher calls, is a name of the script already" if bound else ""

    @property
    def _once(self) -> str:
        """What the starting process alone did, and each process of a launcher could not do as well."""
        call = self.repeats.obstacle if self.outside and self.launches else None
        if call is None:
            return ""
        source = self.roles.index(call).source
        text = source.code(call.func)
        return f"{text}() (line {source.span(call).line}) ran once, in the process that started the others"

    @cached_property
    def repeats(self) -> Repeats:
        """What the starting process did and each process does where a launcher starts them."""
        own = {launch.function for launch in self.launches} - {None}
        return Repeats(self.roles, [p for e in self.entries for p in e.parts] if self.launches else [], own)

    @cached_property
    def several_hosts(self) -> bool:
        """Whether the number that spawn gives a process is but a part of its rank: ``node * gpus + gpu``."""
        modules = self.roles.program.modules.values() if self.launches else ()
        sums = (n for index in modules for n in index.all(cst.BinaryOperation))
        return any(isinstance(n, cst.BinaryOperation) and self._adds_index(n) for n in sums)

    def _adds_index(self, node: cst.BinaryOperation) -> bool:
        if not isinstance(node.operator, cst.Add):
            return False
        for side, other in ((node.left, node.right), (node.right, node.left)):
            product = isinstance(other, cst.BinaryOperation) and isinstance(other.operator, cst.Multiply)
            if product and any(f.detail == INDEX for f in self.roles.facts(side)):
                return True
        return False

    @cached_property
    def launching(self) -> set[cst.FunctionDef]:
        """The functions that run in the starting process: they start the others, or call what does."""
        found: set[cst.FunctionDef] = set()
        waiting = [self._function(launch.call) for launch in self.launches if not self.outside]
        while waiting:
            function = waiting.pop()
            if function is not None and function not in found:
                found.add(function)
                waiting += [self._function(site) for site, _ in callers(self.roles, function)]
        return found

    def _function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The function that a node runs in: what stands in its head runs where it is defined."""
        inner = node
        for outer in self.roles.index(node).ancestors(node):
            if isinstance(outer, cst.FunctionDef) and inner is outer.body:
                return outer
            inner = outer
        return None

    def before(self, node: cst.CSTNode) -> bool:
        """Whether a node runs before the migrated program has processes: what touches a device must not."""
        function = self._function(node)
        if function is not None:
            return function in self.launching
        around = {node, *self.roles.index(node).ancestors(node)}
        return not any(part in around for entry in self.entries for part in entry.parts)

    @cached_property
    def entries(self) -> list[Entry]:
        """The scripts whose processes a launcher starts (none where they do so themselves).

        Of a program for one process: those that train.
        """
        if self.launches and not self.outside:
            return []
        found = []
        for index in self.roles.program.modules.values():
            body = index.source.module.body
            guard = next((s for s in body if isinstance(s, cst.If) and is_main_guard(s)), None)
            entry = Entry(guard, index, Layout(self.roles, index, guard))
            if self._runs(entry):
                found.append(entry)
        return found

    def _runs(self, entry: Entry) -> bool:
        """Whether what a script does starts processes, joins a process group or, in one process, trains."""
        name = "init_process_group" if self.roles.program.replicated else "backward"
        sites = {launch.call for launch in self.launches} or set(self.roles.program.calls.get(name, ()))
        functions = {self._function(call) for call in sites} - {None}
        for part in entry.parts:
            if isinstance(part, (cst.FunctionDef, cst.ClassDef)):
                continue
            if functions & reachable(self.roles, part) or any(n in sites for n in walk(part)):
                return True
        return False


def _indented(guard: cst.If) -> bool:
    return isinstance(guard.body, cst.IndentedBlock)


def is_main_guard(statement: cst.If) -> bool:
    """``if __name__ == "__main__":``."""
    test = statement.test
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    target = test.comparisons[0]
    sides = (test.left, target.comparator)
    named = any(isinstance(side, cst.Name) and side.value == "__name__" for side in sides)
    return (
        named
        and isinstance(target.operator, cst.Equal)
        and any(string_value(side) == "__main__" for side in sides)
    )
