"""What becomes of gradients between the backward pass and the optimizer's step.

They have to be the mean of all replicas' before anything clips, unscales or reads them; DDP reduces them in
the backward pass, ``xm.reduce_gradients`` wherever it stands. Calls are followed both ways: the backward
pass may stand in the caller of what steps, clipping in a function that also runs the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

import libcst as cst

from xla_transforms.loops.effects import Effect, Effects
from xla_transforms.roles import Kind
from xla_transforms.roles.calls import callers
from xla_transforms.roles.elsewhere import given, in_callee, of_receiver, text_at
from xla_transforms.scopes import Branch, How
from xla_transforms.tree import LOOPS, body_of, method, receiver, same, value_of, walk

Block = cst.IndentedBlock | cst.SimpleStatementSuite | cst.Module
_LISTS = (cst.IndentedBlock, cst.SimpleStatementSuite, cst.SimpleStatementLine, cst.Module)


@dataclass
class Way:
    """The way from a step (or a call that leads to one) back to the backward pass.

    ``first`` is the statement that first uses the gradients, ``averaged`` one that averages them by hand,
    ``hidden`` one that computes and uses them out of sight. ``began`` tells that the backward pass was met,
    ``around`` are loops that the step stands in and the first use does not.
    """

    first: cst.CSTNode | None = None
    averaged: cst.CSTNode | None = None
    hidden: cst.CSTNode | None = None
    began: bool = False
    around: list[cst.For] = field(default_factory=list)

    def binders(self, optimizer: cst.BaseExpression) -> list[cst.For]:
        """Those of the loops around the step that bind a name of the optimizer's, the outermost first."""
        return [loop for loop in reversed(self.around) if _binds(loop, optimizer)]


@dataclass
class Place:
    """Where gradients have to be reduced: before a statement, of the optimizer as it is called there.

    ``optimizer`` is empty where it has no name there; ``loops`` bind its name: what each binds, what it goes
    through, the outermost first. ``tests`` are the conditions under which there is an optimizer at all.
    """

    statement: cst.CSTNode
    optimizer: str
    loops: tuple[tuple[str, str], ...] = ()
    tests: tuple[str, ...] = ()


class Gradients:
    """Follows gradients in one program.

    ``averages`` tells of statements that average them by hand; with ``scaled`` a scaler stays, whose
    ``unscale_`` uses them too.
    """

    def __init__(
        self,
        effects: Effects,
        averages: Callable[[cst.CSTNode], bool] = lambda _: False,
        *,
        scaled: bool = False,
    ) -> None:
        self.effects = effects
        self.roles = effects.roles
        self.averages = averages
        self.scaled = scaled

    def way(self, node: cst.Call, optimizer: cst.BaseExpression) -> Way:
        """Back from a call, within its function, to the backward pass."""
        index, way = self.roles.index(node), Way()
        for statement in index.statements(node):
            if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) or way.began:
                break
            if isinstance(statement, LOOPS) and self._steps(statement):
                way.began = True
                break
            if isinstance(statement, cst.For) and way.first is None:
                way.around.append(statement)
            block = index.parent(statement)
            body = list(block.body) if isinstance(block, _LISTS) else []
            position = next((i for i, item in enumerate(body) if item is statement), 0)
            self._scan(body[:position], optimizer, way)
        return way

    def _steps(self, loop: cst.CSTNode) -> bool:
        """Whether an iteration has a backward pass, or a forward one, of its own."""
        assert isinstance(loop, (cst.For, cst.While))
        return bool(self.effects.of(loop.body) & (Effect.BACKWARD | Effect.FORWARD))

    def _scan(self, statements: Sequence[cst.CSTNode], optimizer: cst.BaseExpression, way: Way) -> None:
        """From the end of a block to its backward pass, or to an earlier step of the same optimizer."""
        for statement in reversed(list(_apart(statements))):
            if self.averages(statement):
                way.averaged, way.began = statement, True
                return
            uses, ends = self._uses(statement, optimizer), self._ends(statement, optimizer)
            if ends and uses:
                self._both(statement, optimizer, way)
            way.began = ends
            if ends:
                return
            way.first = statement if uses else way.first

    def _both(self, statement: cst.CSTNode, optimizer: cst.BaseExpression, way: Way) -> None:
        if isinstance(statement, cst.With):
            self._scan(body_of(statement), optimizer, way)
        elif not self.effects.of(statement) & Effect.STEP:
            way.hidden = statement

    def _ends(self, statement: cst.CSTNode, optimizer: cst.BaseExpression) -> bool:
        done = self.effects.of(statement)
        if done & Effect.BACKWARD or not done & Effect.STEP:
            return bool(done & Effect.BACKWARD)
        steps = [c for c in self.effects.calls(statement) if self.effects.of_call(c) & Effect.STEP]
        return not all(self._of_another(c, optimizer) for c in steps)

    def _of_another(self, call: cst.Call, optimizer: cst.BaseExpression) -> bool:
        """Whether a call steps an optimizer that is certainly not this one."""
        stepped = stepped_by(self.effects, call)
        return stepped is not None and self._others(optimizer, stepped)

    def _others(self, optimizer: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        mine, theirs = (self.roles.origins(o, Kind.OPTIMIZER) for o in (optimizer, other))
        return not mine & theirs if mine and theirs else not same(optimizer, other)

    def _uses(self, statement: cst.CSTNode, optimizer: cst.BaseExpression) -> bool:
        unscales = self.scaled and self._unscales(statement, optimizer)
        return unscales or self.effects.uses_gradients(statement)

    def _unscales(self, statement: cst.CSTNode, optimizer: cst.BaseExpression) -> bool:
        calls = (n for n in walk(statement, into_functions=False) if method(n) == "unscale_")
        given_to = (value_of(c, "optimizer", 0) for c in calls if isinstance(c, cst.Call))
        return any(other is not None and not self._others(optimizer, other) for other in given_to)

    # ---- between two backward passes

    def between(self) -> Iterator[Place]:
        """Before what uses the gradients of a backward pass that another one follows, with no step between:
        weights that are moved along them (SAM, adversarial training)."""
        for block in self._blocks():
            first, began = None, False
            statements = list(_apart(block.body))
            for position, statement in enumerate(statements):
                done = self.effects.of(statement)
                if done & (Effect.BACKWARD | Effect.STEP) or self.averages(statement):
                    if first is not None and done & Effect.BACKWARD:
                        yield Place(first, self._reduced(first, statements[position:]))
                    first, began = None, bool(done & Effect.BACKWARD) and not done & Effect.STEP
                elif began and first is None and self._of_weights(statement):
                    first = statement

    def _blocks(self) -> Iterator[Block]:
        """The blocks in which a backward pass stands, or a call of a function with one."""
        seen: set[cst.CSTNode] = set()
        passes = list(self.roles.program.calls.get("backward", ()))
        functions = {f for call in passes if (f := self.roles.index(call).function_of(call)) is not None}
        for call in [*passes, *(site for f in functions for site, _ in callers(self.roles, f))]:
            for statement in self.roles.index(call).statements(call):
                block = self.roles.index(statement).parent(statement)
                if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) or block in seen:
                    break
                if isinstance(block, (cst.IndentedBlock, cst.SimpleStatementSuite, cst.Module)):
                    seen.add(block)
                    yield block

    def _of_weights(self, statement: cst.CSTNode) -> bool:
        """Whether a statement uses gradients of what is trained, not those of a batch alone."""
        read = [n.value for n in walk(statement, into_functions=False) if _is_gradient(n)]
        inputs = [n for n in read if isinstance(n, cst.Name) and self._is_input(n)]
        return self.effects.uses_gradients(statement) and not (read and len(inputs) == len(read))

    def _is_input(self, name: cst.Name) -> bool:
        """Whether a name is a tensor, and not a parameter that a loop goes through."""
        through = [b.value for b in self.roles.bindings(name) if b.how is How.ITERATE and b.value is not None]
        calls = [method(n) for value in through for n in walk(value) if isinstance(n, cst.Call)]
        weights = any(self.roles.is_a(value, Kind.PARAMETERS) for value in through)
        given = weights or "parameters" in calls or "named_parameters" in calls
        return not given and self.roles.is_a(name, Kind.TENSOR)

    def _reduced(self, statement: cst.CSTNode, behind: Sequence[cst.CSTNode]) -> str:
        """The optimizer whose gradients a statement uses: its own method does, or it alone steps then."""
        calls = list(self.effects.calls(statement))
        own = {receiver(c) for c in calls if Kind.OPTIMIZER in self.roles.kinds(receiver(c))}
        steps = (stepped_by(self.effects, c) for s in behind for c in self.effects.calls(s))
        names = {self.roles.index(statement).source.code(o) for o in own or steps if o is not None}
        return names.pop() if len(names) == 1 else ""

    # ---- across functions

    def places(self, step: cst.Call, optimizer: cst.BaseExpression) -> list[Place] | None:
        """Where gradients are to be reduced before they are used; none where the step may reduce them.

        ``None`` where they are averaged by hand.
        """
        way = self.way(step, optimizer)
        if way.averaged is not None:
            return None
        if way.hidden is not None:
            return self._inside(way.hidden, optimizer)
        earlier = [] if way.began else self._in_callers(step, optimizer, way.binders(optimizer))
        if earlier or earlier is None or way.first is None:
            return earlier
        return [self.place(way, step, optimizer)]

    def place(self, way: Way, step: cst.Call, optimizer: cst.BaseExpression) -> Place:
        """The place before the first use, in the function that steps."""
        code = self.roles.index(optimizer).source.code
        loops = tuple((code(loop.target), code(loop.iter)) for loop in way.binders(optimizer))
        assert way.first is not None
        return Place(way.first, code(optimizer), loops, tuple(self._tests(way.first, step, optimizer)))

    def _tests(self, first: cst.CSTNode, step: cst.Call, optimizer: cst.BaseExpression) -> Iterator[str]:
        """The conditions around the step, not around the first use, by which there is an optimizer at all."""
        index = self.roles.index(step)
        branch = index.branch(step)
        while branch is not None and not index.within(first, branch.statement):
            test = self._existence(branch, optimizer)
            if test is not None:
                text = index.source.code(test)
                yield text if branch.in_body else f"not ({text})"
            branch = branch.outer

    def _existence(self, branch: Branch, optimizer: cst.BaseExpression) -> cst.BaseExpression | None:
        """The condition, or a part of it, that asks for the optimizer, or under which its name is bound."""
        test = branch.statement.test
        asking = next((part for part in _parts(test, branch.in_body) if _asks(part, optimizer)), None)
        if asking is not None:
            return asking
        bindings = self.roles.bindings(optimizer) if isinstance(optimizer, cst.Name) else []
        bound = bool(bindings) and all(self._under(binding.statement, branch) for binding in bindings)
        return test if bound else None

    def _under(self, statement: cst.CSTNode, wanted: Branch) -> bool:
        """Whether a statement stands under the same condition, written anew."""
        around = self.roles.index(statement).branch(statement)
        while around is not None:
            if around.in_body is wanted.in_body and same(around.statement.test, wanted.statement.test):
                return True
            around = around.outer
        return False

    def _in_callers(
        self, step: cst.Call, optimizer: cst.BaseExpression, binders: list[cst.For]
    ) -> list[Place] | None:
        """The same where the function that steps is called behind the backward pass: in all its callers."""
        function = self.roles.index(step).function_of(step)
        sites = callers(self.roles, function) if function is not None else []
        ways = [(site, taken, self.way(site, optimizer)) for site, taken in sites]
        if any(way.averaged is not None for _, _, way in ways):
            return None
        if not any(way.first or way.hidden for _, _, way in ways):
            return []
        assert function is not None
        found = []
        for site, taken, way in ways:
            statement = way.first or way.hidden or self.roles.index(site).statement_of(site)
            assert statement is not None
            named = binders[0].iter if len(binders) == 1 else optimizer
            value = given(self.roles, named, function, site, taken) if not way.hidden else None
            text = text_at(self.roles, value, statement) if value is not None else ""
            text = text or ("" if way.hidden else of_receiver(self.roles, named, site))
            found.append(self._place_in_caller(statement, text, optimizer, binders))
        return found

    def _place_in_caller(
        self, statement: cst.CSTNode, text: str, optimizer: cst.BaseExpression, binders: list[cst.For]
    ) -> Place:
        """With the text that the optimizer has in the caller, or that what a loop goes through has there."""
        if not binders or not text:
            return Place(statement, text)
        code = self.roles.index(optimizer).source.code
        target = code(binders[0].target)
        return Place(statement, code(optimizer) if len(binders) == 1 else "", ((target, text),))

    def _inside(self, statement: cst.CSTNode, optimizer: cst.BaseExpression) -> list[Place]:
        """Within the function that a statement calls, which runs the backward pass and uses gradients."""
        for call in self.effects.calls(statement):
            for function in (f.node for f in self.roles.facts(call.func) if f.kind is Kind.FUNCTION):
                if isinstance(function, cst.FunctionDef) and self.effects.of_function(function):
                    way = Way()
                    self._scan(body_of(function), optimizer, way)
                    if way.first is not None:
                        return [Place(way.first, in_callee(self.roles, optimizer, function, call))]
        return [Place(statement, "")]


def _apart(statements: Iterable[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Statements that share a line, each for itself."""
    for statement in statements:
        if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) > 1:
            yield from statement.body
        else:
            yield statement


def stepped_by(effects: Effects, call: cst.Call) -> cst.BaseExpression | None:
    """The optimizer that a call of ``step`` steps, by itself or through a scaler."""
    base = receiver(call)
    if base is None or method(call) != "step":
        return None
    kinds = effects.roles.kinds(base)
    if kinds == {Kind.SCALER}:
        return value_of(call, "optimizer", 0)
    return base if Kind.OPTIMIZER in kinds else None


def _is_gradient(node: cst.CSTNode) -> TypeGuard[cst.Attribute]:
    return isinstance(node, cst.Attribute) and node.attr.value == "grad"


def _binds(loop: cst.For, optimizer: cst.BaseExpression) -> bool:
    """Whether a loop gives its name to the root of an expression."""
    bound = {n.value for n in walk(loop.target) if isinstance(n, cst.Name)}
    return any(isinstance(n, cst.Name) and n.value in bound for n in walk(optimizer))


def _parts(test: cst.BaseExpression, true: bool) -> Iterator[cst.BaseExpression]:
    """The parts of a condition that all hold where it does, or all fail where it does not."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And if true else cst.Or):
        yield from _parts(test.left, true)
        yield from _parts(test.right, true)
    else:
        yield test


def _asks(test: cst.BaseExpression, optimizer: cst.BaseExpression) -> bool:
    """Whether a condition asks if there is an optimizer: ``optimizer is not None``, ``not optimizer``."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _asks(test.expression, optimizer)
    return same(test.left if isinstance(test, cst.Comparison) else test, optimizer)
