"""Opening the guards of the master: what all replicas must run leaves it, the rest gets one of its own."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from xla_transforms.branches import Branches
from xla_transforms.context import Context
from xla_transforms.loops.reads import spans_lines
from xla_transforms.plan import Planned, Render
from xla_transforms.replicas import Master, Region
from xla_transforms.tree import walk

_LOOSE = (cst.BooleanOperation, cst.IfExp, cst.NamedExpr, cst.Lambda)


class Guards:
    """Writes the guards of one module anew. (One for a pass: it remembers what it has guarded.)"""

    def __init__(self, context: Context) -> None:
        self.context, self.plan, self.source = context, context.plan, context.index.source
        self._guarded: set[cst.CSTNode] = set()

    def can_open(self, region: Region) -> bool:
        """Whether the lines of a region can be written anew."""
        moved = [s for run in region.runs for s in run]
        if region.block and not region.rest:
            moved += region.statements
        blocks = all(isinstance(s, cst.BaseStatement) for s in moved)
        return blocks and not any(spans_lines(s) for s in moved)

    def open(self, change: Planned, region: Region) -> None:
        """Let all replicas into a region, with a guard around what stays the master's."""
        test = self.test(change, region.master)
        for run in region.runs:
            if not self._guarded.intersection(run):
                self._guarded.update(run)
                self._wrap(change, run, test)
        if isinstance(region.node, cst.FunctionDef):
            return
        if region.leaves:
            change.remove(region.node)
        elif region.rest:
            template = " and ".join(f"{{{number}}}" for number in range(len(region.rest)))
            change.replace(region.node.test, template, *region.rest)
        else:
            Branches(self.context).keep_block(change, region.node, region.node.body)

    def test(self, change: Planned, master: Master) -> str:
        """A condition that holds on the master: as the script asks, where that is still there to be asked."""
        part = master.part
        if part is not None and not any(isinstance(n, (cst.Call, cst.Subscript)) for n in walk(part)):
            return self.source.code(part)
        return change.spell(
            self.context.target.is_local_master if master.local else self.context.target.is_master
        )

    def _wrap(self, change: Planned, run: Sequence[cst.CSTNode], test: str) -> None:
        only = run[0]
        if len(run) == 1 and isinstance(only, cst.If) and only.orelse is None:
            loose = isinstance(only.test, _LOOSE) and not only.test.lpar
            change.wrap(only.test, f"{test} and ({{0}})" if loose else f"{test} and {{0}}", brackets=True)
            return
        start = self.source.line_start(self.source.offsets(run[0])[0])
        end, indent = self.source.lines_end(run[-1]), self.plan.indentation(run[0])

        def write(render: Render) -> str:
            lines = render((start, end)).splitlines(keepends=True)
            inner = "".join(self.source.indent + line if line.strip() else line for line in lines)
            return f"{indent}if {test}:{self.source.newline}{inner}"

        change.replace_statements(run[0], run[-1], write)
