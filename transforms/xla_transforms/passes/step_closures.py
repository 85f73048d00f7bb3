"""Logging goes into step closures: functions that run when the step's values are there.

``print(loss.item())`` in the middle of a step makes the host wait and cuts the step in two executions. A step
closure is run at the barrier, with the values that were handed to it.
Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``add_step_closure``; pytorch/xla#1795.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.guarding import Guards
from xla_transforms.loops.deferral import Deferral
from xla_transforms.loops.handover import Run
from xla_transforms.plan import Render
from xla_transforms.replicas import Region

CLOSURE = Rule(
    "XLA721",
    "step-closure",
    "Statements that only show or store a step's values run in a step closure.",
    "They run at the barrier, when the values are there, instead of an execution of their own "
    "(pytorch/xla v2.9.0, add_step_closure).",
)
RULES = (CLOSURE,)

_NAME = "log_step"


def run(context: Context) -> None:
    if not context.uses_cuda or context.already_xla:
        return
    used: dict[cst.CSTNode | None, int] = {}
    guards = Guards(context) if context.distributed else None
    for deferral in context.deferrals:
        if not deferral.closures:
            continue
        for found in deferral.runs:
            function = context.index.function_of(deferral.loop.node)
            used[function] = used.get(function, 0) + 1
            opened = [region.node for region in _opened(guards, found)]
            with context.plan.together(deferral, *opened, needs=[deferral.loop]):
                _write(context, deferral, found, _name(context, used[function]), guards)


def _name(context: Context, number: int) -> str:
    name = _NAME if number == 1 else f"{_NAME}_{number}"
    bound = {n for scope in context.index.scopes.values() for n in scope.bindings}
    while name in bound:
        name += "_"
    return name


def _write(
    context: Context, deferral: Deferral, found: Run, name: str, guards: Guards | None
) -> None:
    first, last = found.units[0].statement, found.units[-1].statement
    change = context.plan.change(CLOSURE, first, "values are shown and stored when the step has run")
    given = [*found.names, *dict.fromkeys(found.lifted.values())]
    head = [f"def {name}({', '.join(given)}):"]
    if found.outer:
        scope = "nonlocal" if context.index.function_of(first) is not None else "global"
        head.append(f"{context.index.source.indent}{scope} {', '.join(found.outer)}")
    late = [n for n in found.names if n in deferral.sums or n in deferral.deferred]
    head += [context.index.source.indent + deferral.restored(n) for n in late]
    opened = _opened(guards, found)
    test = guards.test(change, opened[0].master) if guards is not None and opened else ""
    add = change.spell(context.target.step_closure)
    text = _Text(context, found, head, lambda taken: add.format(name, taken), test)
    for place, new in found.lifted.items():
        change.rewrite(*context.index.source.offsets(place), text.lift(place, new), wraps=True)
    change.replace_statements(first, last, text.write)


def _opened(guards: Guards | None, found: Run) -> list[Region]:
    """The guards of the master around a closure that open to all replicas: it asks for the master itself."""
    around = guards.around(found.units[0].statement) if guards is not None else []
    return [region for region in around if not region.obstacle]


def _tuple(items: list[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


class _Text:
    """The lines of a closure and of the call that adds it.

    ``lifted`` holds what is evaluated there, by the closure's name for it; rendering the body fills it.
    """

    def __init__(
        self, context: Context, found: Run, head: list[str], add: Callable[[str], str], test: str
    ) -> None:
        self.test, self.one = test, context.index.source.indent
        self.lifted: dict[str, str] = {}
        self.source, self.found, self.head, self.add = context.index.source, found, head, add
        self.indent = context.plan.indentation(found.units[0].statement)

    def lift(self, place: cst.BaseExpression, name: str) -> Callable[[Render], str]:
        """Writes a name for a place, whose own text is kept for the call."""

        def write(render: Render) -> str:
            self.lifted[name] = render(place)
            return name

        return write

    def write(self, render: Render) -> str:
        newline = self.source.newline
        above = "" if self._spaced() else newline
        head = "".join(f"{self.indent}{line}{newline}" for line in self.head)
        deeper = self.one
        if self.test:
            head += f"{self.indent}{self.one}if {self.test}:{newline}"
            deeper += self.one
        body = "".join(
            deeper + line if line.strip() else line
            for line in self._body(render).splitlines(keepends=True)
        )
        body = body if body.endswith(("\n", "\r")) else body + newline
        lifted = [self.lifted[name] for name in dict.fromkeys(self.found.lifted.values())]
        taken = _tuple([*self.found.names, *lifted])
        return f"{above}{head}{body}{newline}{self.indent}{self.add(taken)}{newline}"

    def _spaced(self) -> bool:
        """Whether the line above is blank or a comment, which then is the function's."""
        start = self.source.line_start(self.source.offsets(self.found.units[0].statement)[0])
        above = self.source.text[:start].rstrip("\r\n") if start else ""
        line = self.source.text[:start].splitlines()[-1].strip() if above or start else ""
        return not line or line.startswith("#")

    def _body(self, render: Render) -> str:
        text, pieces = self.source.text, []
        position = self.source.line_start(self.source.offsets(self.found.units[0].statement)[0])
        for unit in self.found.units:
            start, end = self.source.offsets(unit.statement)
            pieces += [text[position:start], render(unit.statement)]
            position = end
        pieces.append(text[position : self.source.line_end(position)])
        return "".join(pieces)
