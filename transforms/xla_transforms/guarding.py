"""Opening the guards of the master: what all replicas must run leaves it, the rest gets one of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst

from xla_transforms.branches import Branches
from xla_transforms.context import Context
from xla_transforms.edits import apply
from xla_transforms.loops import Effect, Loops
from xla_transforms.loops.reads import spans_lines
from xla_transforms.plan import Planned, Render
from xla_transforms.render import Renderer
from xla_transforms.replicas import Master, Region
from xla_transforms.replicas.alone import above
from xla_transforms.replicas.reach import reachable
from xla_transforms.roles import Kind
from xla_transforms.roles.calls import callers
from xla_transforms.roles.ranks import is_option
from xla_transforms.tree import LOOPS, body_of, method, receiver, walk

_MODES = (
    "torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.set_grad_enabled", "torch.autocast",
    "torch.amp.", "torch.cuda.amp.",
)  # fmt: skip
_LOOSE = (cst.BooleanOperation, cst.IfExp, cst.NamedExpr, cst.Lambda)


class Guards:
    """The guards of one module, and how they are written anew. (One for a pass: it remembers its wraps.)"""

    def __init__(self, context: Context) -> None:
        self.context, self.plan, self.source = context, context.plan, context.index.source
        self.alone = context.replicas.alone
        self._guarded: set[cst.CSTNode] = set()
        self._made: dict[cst.If, Region] = {}

    @cached_property
    def lines(self) -> frozenset[cst.CSTNode]:
        """The statements that go into step closures."""
        deferrals = [d for d in self.context.deferrals if d.closures]
        return frozenset(u.statement for d in deferrals for run in d.runs for u in run.units)

    def region(self, guard: cst.If, master: Master) -> Region:
        """The block of a guard, with the step closures in it."""
        if guard not in self._made:
            lines = [line for line in self.lines if self.context.index.within(line, guard.body)]
            region = self.alone.region(guard, master, self.alone.shared, lines)
            if not region.obstacle and not self._movable(region):
                region.obstacle = "its lines cannot be moved"
            if not region.obstacle and lines and any(map(self.differs, region.decisions)):
                region.obstacle = "each replica decides by a number of its own"
            self._made[guard] = region
        return self._made[guard]

    def differs(self, test: cst.CSTNode) -> bool:
        """Whether a condition is answered by each replica for itself."""
        decisions = self.context.replicas.decisions
        return decisions.differs(test) or decisions.of_master(test) or decisions.of_rank(test)

    def pending(self, place: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()) -> bool:
        """Whether a step waits for its barrier where the master goes on alone, here or in a caller."""
        roles, loops = self.context.roles, self._loops(place)
        loop = loops.of(place)
        if loop is not None:
            return bool(loop.effect & Effect.STEP) and loops.pending(loop, place)
        function = roles.index(place).function_of(place)
        if function is None or function in seen:
            return False
        sites = (site for site, _ in callers(roles, function))
        return self._stepped(place) or any(self.pending(site, seen | {function}) for site in sites)

    def _loops(self, place: cst.CSTNode) -> Loops:
        index = self.context.roles.index(place)
        if index is self.context.index:
            return self.context.loops
        return self.context.roles.remembered(("loops", index.name), lambda: Loops(self.context.roles, index))

    def _stepped(self, place: cst.CSTNode) -> bool:
        """Whether a single step is made above a place in its function, not a loop of them."""
        roles, effects = self.context.roles, self._loops(place).effects
        for statement in above(roles.index(place), place):
            blocks = [statement, *(f.body for f in reachable(roles, statement))]
            loops = (n for block in blocks for n in walk(block) if isinstance(n, LOOPS))
            if effects.of(statement) & Effect.STEP and not any(map(effects.is_step_loop, loops)):
                return True
        return False

    def fenceable(self, master: Master) -> bool:
        """Whether a barrier of all replicas can stand above a guard: they answer alike what else it asks."""
        return not any(self.differs(part) or self.alone.calm.disturbs(part) for part in master.rest)

    def around(self, node: cst.CSTNode) -> list[Region]:
        """The guards of the master around a node, innermost first."""
        return [self.region(guard, master) for guard, master in self.alone.guards(node)]

    @cached_property
    def saving(self) -> list[Region]:
        """The regions of the module in which a save is reached."""
        found = [r for r in self.alone.regions if self.context.roles.index(r.node) is self.context.index]
        return [self._own(region) for region in found]

    def _own(self, region: Region) -> Region:
        if region.block and isinstance(region.node, cst.If):
            return self.region(region.node, region.master)
        if not region.obstacle and not self._movable(region):
            region.obstacle = "its lines cannot be moved"
        return region

    @cached_property
    def logging(self) -> list[Region]:
        """The other guards in which a step closure is added, but for those around all of its loop: a loop
        that the master alone runs has steps of its own."""
        lines = sorted(self.lines, key=lambda line: self.source.offsets(line)[0])
        found = {r.node: r for line in lines for r in self.around(line) if not self._holds_loop(r, line)}
        return [region for node, region in found.items() if node not in {r.node for r in self.saving}]

    def _holds_loop(self, region: Region, line: cst.CSTNode) -> bool:
        loop = self.context.loops.of(line)
        return loop is not None and self.context.index.within(loop.node, region.node)

    def place_for_all(self, line: cst.CSTNode) -> cst.CSTNode:
        """Where a line that all replicas must run may come before a statement."""
        guards = list(self.alone.guards(line))
        if not guards:
            return line
        guard, master = guards[-1]
        region = self.region(guard, master)
        return body_of(guard)[0] if master.rest and not region.obstacle else guard

    def _movable(self, region: Region) -> bool:
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
        elif not Branches(self.context).keep_block(change, region.node, region.node.body):
            change.replace(region.node.test, "True")

    def test(self, change: Planned, master: Master) -> str:
        """A condition that holds on the master: as the script asks, where that is still there to be asked."""
        part = master.part
        if part is not None and all(self._stays(n) for n in walk(part)):
            return self.source.code(part)
        local = master.local
        return change.spell(self.context.target.is_local_master if local else self.context.target.is_master)

    def _stays(self, node: cst.CSTNode) -> bool:
        """Whether a part of a condition is not where a rank comes from, which is written anew."""
        if isinstance(node, cst.Call):
            return not node.args and self.context.roles.is_a(node.func, Kind.FUNCTION)
        return not isinstance(node, cst.Subscript) and not is_option(self.context.roles, node)

    def _wrap(self, change: Planned, run: Sequence[cst.CSTNode], test: str) -> None:
        only = run[0]
        if len(run) == 1 and isinstance(only, cst.If) and only.orelse is None and "\n" not in test:
            loose = isinstance(only.test, _LOOSE) and not only.test.lpar
            mark = f"({test})" if isinstance(cst.parse_expression(test), _LOOSE) else test
            change.wrap(only.test, f"{mark} and ({{0}})" if loose else f"{mark} and {{0}}", brackets=True)
            return
        start = self.source.line_start(self.source.offsets(run[0])[0])
        end, indent = self.source.lines_end(run[-1]), self.plan.indentation(run[0])
        test = test.replace("\n", f"\n{self.source.indent}")  # it comes from further out

        def write(render: Render) -> str:
            lines = render((start, end)).splitlines(keepends=True)
            inner = "".join(self.source.indent + line if line.strip() else line for line in lines)
            return f"{indent}if {test}:{self.source.newline}{inner}"

        change.replace_statements(run[0], run[-1], write)


class Hoists:
    """Reads that the master alone made, made by all replicas, above what is the master's."""

    def __init__(self, context: Context) -> None:
        self.context, self.plan, self.source = context, context.plan, context.index.source
        self.reads = context.loops.reads

    def reads_in(self, statements: Sequence[cst.CSTNode]) -> list[cst.BaseExpression]:
        """What statements read from the device, the blocks of compound ones included."""
        parts = (n for s in statements for n in walk(s, into_functions=False))
        lines = (n for n in parts if isinstance(n, cst.BaseStatement))
        return [read for line in lines for read in self.reads.within(line)]

    def pieces(self, read: cst.BaseExpression) -> list[tuple[cst.BaseExpression, str]]:
        """What of a read is fetched, each with the text that fetches it."""
        if self.reads.fetched(read) is not None:
            return [(read, self.text(read))]
        if any(self._sometimes(node) for node in walk(read)):
            return []
        found: list[tuple[cst.BaseExpression, str]] = []
        for node in _shown(read):
            if self.reads.on_device(node):
                found.append((node, f"{self._primary(node)}.cpu()"))
            else:
                found += [piece for inner in self.reads.within(node) for piece in self.pieces(inner)]
        return found

    def _sometimes(self, node: cst.CSTNode) -> bool:
        """Whether a variable is a number at one time and a tensor at another: numbers have no ``cpu()``."""
        variable = isinstance(node, (cst.Name, cst.Attribute))
        return variable and {Kind.NUMBER, Kind.TENSOR} <= set(self.context.roles.kinds(node))

    def text(self, node: cst.BaseExpression) -> str:
        """What a node says, with what is planned inside of it so far."""
        start, end = self.source.offsets(node)
        inner = [s for s in self.plan.sites() if start <= s.start and s.end <= end]
        return apply(self.source.text, Renderer(self.context.index, inner).edits(), start, end)

    def _primary(self, node: cst.BaseExpression) -> str:
        code = self.text(node)
        simple = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
        return code if simple else f"({code})"

    def plain(self, node: cst.BaseExpression, bound: set[str]) -> bool:
        """Whether an expression gives the same above its statement, whatever way its evaluation takes."""
        index, line = self.context.index, self.context.index.statement_of(node)
        for outer in index.ancestors(node):
            if outer is line:
                break
            if isinstance(outer, (cst.IfExp, cst.BooleanOperation, cst.Lambda, cst.BaseComp)):
                return False
        names = {n.value for n in walk(node) if isinstance(n, cst.Name)}
        return not names & bound and "\n" not in self.source.code(node)

    def mode(self, read: cst.BaseExpression, statements: Sequence[cst.CSTNode]) -> str:
        """The context managers within some statements that say how what is read is computed."""
        tensor = self.reads.fetched(read)
        if tensor is not None and self.reads.plain(tensor) and method(read) not in ("cpu", "numpy"):
            return ""
        items: list[str] = []
        for outer in self.context.index.ancestors(read):
            if isinstance(outer, cst.With):
                given = [item.item for item in outer.items]
                items[:0] = [self.text(one) for one in given if self._computes(one)]
            if outer in statements:
                break
        return ", ".join(items)

    def _computes(self, manager: cst.BaseExpression) -> bool:
        called = manager.func if isinstance(manager, cst.Call) else manager
        return self.context.roles.path(called).startswith(_MODES)

    def name(self, node: cst.BaseExpression, taken: set[str]) -> str:
        """``total_value`` for ``total.item()``."""
        tensor = self.reads.fetched(node) or node
        while method(tensor) in ("detach", "float") and (base := receiver(tensor)) is not None:
            tensor = base
        words = [n.value for n in walk(tensor) if isinstance(n, cst.Name) and n.value != "self"]
        last = isinstance(tensor, cst.Attribute)
        root = words[-1 if last else 0] if words else "read"
        bound = {n for scope in self.context.index.scopes.values() for n in scope.bindings}
        name = f"{root}_value"
        while name in bound | taken:
            name += "_"
        return name


def _shown(read: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The expressions whose values a call, a text or a formatting shows."""
    if isinstance(read, cst.FormattedString):
        yield from (p.expression for p in read.parts if isinstance(p, cst.FormattedStringExpression))
    values: list[cst.BaseExpression] = []
    if isinstance(read, cst.Call):
        values = [arg.value for arg in read.args]
    elif isinstance(read, cst.BinaryOperation):
        values = [read.right]
    for value in values:
        if isinstance(value, (cst.Tuple, cst.List)):
            yield from (e.value for e in value.elements)
        elif isinstance(value, cst.Dict):
            yield from (e.value for e in value.elements if isinstance(e, cst.DictElement))
        else:
            yield value
