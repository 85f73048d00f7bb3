"""The map of a project: its programs from their entries on, with what resolves and what does not, and why.

It asks the same analysis as the passes, so what it calls unknown is what they leave alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import libcst as cst

from xla_transforms.loops.effects import Effects
from xla_transforms.mapping.answers import Answers
from xla_transforms.mapping.entries import Entry, entries
from xla_transforms.mapping.makers import Makers
from xla_transforms.mapping.parts import QUESTIONS, Answer, Node, Part, Place, ProgramMap, ProjectMap, Unknown
from xla_transforms.mapping.reach import Reach, uses_gradient
from xla_transforms.mapping.reasons import Reasons
from xla_transforms.mapping.trees import Trees
from xla_transforms.replicas.starts import Starts
from xla_transforms.roles import Roles
from xla_transforms.roles.calls import callers
from xla_transforms.tree import method, receiver

__all__ = ["QUESTIONS", "Answer", "Mapper", "Node", "Part", "Place", "ProgramMap", "ProjectMap", "Unknown"]


class Mapper:
    """Maps one program: files that import one another."""

    def __init__(self, roles: Roles, project: ProjectMap, commands: Mapping[str, str]) -> None:
        self.roles, self.project = roles, project
        self.reach, self.effects = Reach(roles), Effects(roles)
        self.makers = Makers(roles, project.parts)
        self.entries = entries(roles, Starts(roles), commands)

    def run(self) -> None:
        """Add what the program's entries do, and what trains without one, to the project."""
        reached: set[cst.CSTNode] = set()
        training: set[str] = set()
        told: list[tuple[ProgramMap, set[cst.CSTNode]]] = []
        for entry in (e for e in self.entries if not is_test(e.index.source.path)):
            codes = self.reach.everything(*entry.code)
            same = next((program for program, all_ in told if all_.issuperset(entry.code)), None)
            if same is not None:  # a command that calls the ``main`` of a script
                same.started += f"; {entry.started}"
            elif self._trains(codes):
                reached.update(codes)
                training.add(entry.index.source.path)
                told.append((self._program(entry, codes), set(codes)))
        self.project.programs += [program for program, _ in told]
        for code in self._orphans(reached):
            training.add(self.roles.index(code).source.path)
            self.project.programs.append(self._orphan(code))
        every = (index.source.path for index in self.roles.program.modules.values())
        self.project.others += [path for path in every if path not in training]

    def _trains(self, codes: list[cst.CSTNode]) -> bool:
        """Whether gradients are computed, and something is stepped or a gradient is used by hand."""
        calls = [call for code in codes for call in self.reach.calls(code)]
        found = (self.makers.at.get(call) for call in calls)
        steps = any(method(call) in ("step", "zero_grad") for call in calls) or any(map(uses_gradient, codes))
        return steps and any(part is not None and part.role == "backward" for part in found)

    def _program(self, entry: Entry, codes: list[cst.CSTNode]) -> ProgramMap:
        tree = Trees(self.reach, self.makers, self.effects).grow(entry.at, entry.started, entry.code)
        answers = {"entry": Answer(True, entry.started), **self._answers(codes)}
        return ProgramMap(entry.index.source.path, entry.started, tree, answers)

    def _answers(self, codes: list[cst.CSTNode]) -> dict[str, Answer]:
        asked = Answers(self.reach, self.makers, self.effects, codes)
        return {name: getattr(asked, name)() for name in QUESTIONS if name != "entry"}

    def _orphans(self, reached: set[cst.CSTNode]) -> list[cst.FunctionDef]:
        """The outermost functions that train though no entry is seen to reach them, one a file."""
        held = [c for c, part in self.makers.at.items() if part.role == "backward"]
        found: dict[str, cst.FunctionDef] = {}
        for function in dict.fromkeys(self.roles.index(call).function_of(call) for call in held):
            top = self._outermost(function) if function is not None and function not in reached else None
            if top is not None and top not in reached and self._trains(self.reach.everything(top)):
                found.setdefault(self.roles.index(top).source.path, top)
        return [top for path, top in found.items() if not is_test(path)]

    def _outermost(self, function: cst.FunctionDef) -> cst.FunctionDef:
        """The function at the head of the calls that lead to one, those of tests aside."""
        seen = {function}
        while True:
            found = [(self.roles.index(site), site) for site, _ in callers(self.roles, function)]
            sites = (index.function_of(site) for index, site in found if not is_test(index.source.path))
            above = next((f for f in sites if f is not None and f not in seen), None)
            if above is None:
                return function
            seen.add(above)
            function = above

    def _orphan(self, function: cst.FunctionDef) -> ProgramMap:
        tree = Trees(self.reach, self.makers, self.effects).grow(function, "", (function,))
        reason = self._unstarted(function)
        unknown = Unknown("entry", self.makers.place(function), f"{function.name.value}()", reason)
        outside = "nothing in the project starts it: whoever uses the library does"
        entry = Answer(False, "", unknown=(unknown,)) if reason else Answer(True, outside, needed=False)
        answers = {"entry": entry, **self._answers(self.reach.everything(function))}
        return ProgramMap(self.roles.index(function).source.path, "", tree, answers)

    def _unstarted(self, function: cst.FunctionDef) -> str:
        """Why no entry is seen to lead to a function: the calls of that name, and what they are made on.

        Empty where no call can be meant: then it is for others to call.
        """
        for call in self.roles.program.calls.get(function.name.value, ()):
            if not self.roles.kinds(call.func) and not self.roles.kinds(receiver(call)):
                reason = Reasons(self.roles).why(call.func)
                return f"{self.makers.place(call)} calls something of this name: {reason}"
        return ""


def is_test(path: str) -> bool:
    """Whether pytest takes a file for one with tests, by its default rules."""
    name = re.split(r"[/\\]", path)[-1]
    return name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"

