"""apex's mixed precision: all that a program does with it, and why it could not be written anew.

What ``amp.initialize`` switches on works wherever the program computes from then on; autocast has to stand
around the forward pass. So each ``with amp.scale_loss(loss, optimizer) as scaled:`` is asked for the
statements above it that compute the loss. Nothing is written unless every use in the program is understood.
Source: NVIDIA apex, ``apex/amp/frontend.py`` (levels), ``handle.py`` (``scale_loss``), ``_initialize.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from xla_transforms.loops.effects import Effect, Effects
from xla_transforms.loops.sinks import bound_names
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.elsewhere import text_at
from xla_transforms.scopes import Binding, How, ModuleIndex, parameters
from xla_transforms.tree import argument, dotted, has_star, is_main_guard, string_value, value_of, walk

AMP = "apex.amp"
_TOLD = frozenset(
    {
        "models", "optimizers", "enabled", "opt_level", "keep_batchnorm_fp32", "loss_scale", "num_losses",
        "verbosity", "min_loss_scale", "max_loss_scale",
    }
)  # fmt: skip
_USES = frozenset({"initialize", "scale_loss", "master_params", "state_dict", "load_state_dict"})
_BINDS = (cst.AssignTarget, cst.AnnAssign, cst.Import, cst.ImportFrom, cst.FunctionDef, cst.ClassDef)
_DEEP = 4
_WORDS = ("True", "False", "None")


@dataclass(eq=False)
class Scaled:
    """``with amp.scale_loss(loss, optimizer) as name:``, and the statements above it that compute the loss.

    ``ways`` are the conditions under which it comes to it there, each with the answer that leads to it.
    """

    statement: cst.With
    loss: cst.BaseExpression
    name: str
    forward: Sequence[cst.CSTNode] = ()
    ways: list[tuple[cst.If, bool]] = field(default_factory=list)


class Amp:
    """What one program does with ``apex.amp``."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self.effects = Effects(roles)
        self.calls: dict[str, list[cst.Call]] = {name: [] for name in _USES}
        self.uses: list[cst.Name] = []
        self._either: set[cst.If] = set()  # conditions both ways of which initialize alike
        self.scaled: list[Scaled] = []
        self.doubts: list[tuple[str, cst.CSTNode]] = []
        if roles.program.mentions("apex"):
            self._collect()
            for call in self.calls["initialize"]:
                self._judge(call)
            for call in self.calls["scale_loss"]:
                self._scaling(call)
            for scaled in self.scaled:
                if self.enabled(scaled) is None:
                    self._doubt("it is not seen when it is switched on", scaled.statement)

    @property
    def understood(self) -> bool:
        """Whether the program computes by it, and nothing about that is unknown."""
        return bool(self.calls["initialize"]) and not self.doubts

    def _doubt(self, reason: str, node: cst.CSTNode) -> None:
        self.doubts.append((reason, node))

    # ---- what there is

    def _collect(self) -> None:
        for index in self.roles.program.modules.values():
            for binding in _imported(index):
                for use in index.named(_local(binding)):
                    if not index.within(use, binding.statement) and binding in self.roles.bindings(use):
                        self._use(index, use)
                if guard := _tried(index, binding.statement):
                    self._import(index, guard)

    def _use(self, index: ModuleIndex, use: cst.Name) -> None:
        node: cst.CSTNode = use
        while isinstance(outer := index.parent(node), cst.Attribute) and outer.value is node:
            node = outer
        path = self.roles.path(node)
        if path.startswith("apex.") and not path.startswith(AMP):
            return
        name = path.removeprefix(f"{AMP}.")
        self.uses.append(use)
        if isinstance(outer, cst.Call) and outer.func is node and name in _USES and not has_star(outer):
            if outer not in self.calls[name]:
                self.calls[name].append(outer)
        else:
            self._doubt("apex.amp is used in a way that autocast has no counterpart for", node)

    def _import(self, index: ModuleIndex, guard: cst.Try) -> None:
        """An import that is tried: where the script remembers how that went, it asks for it later."""
        for handler in guard.handlers:
            for node in walk(handler.body, into_functions=False):
                if isinstance(node, _BINDS):
                    self._doubt("the script remembers whether apex is there", guard)
                    return
        flags = [n for n in walk(guard.body, into_functions=False) if isinstance(n, cst.AssignTarget)]
        if flags:
            self._doubt("the script remembers whether apex is there", flags[0])

    # ---- whether it is understood

    def _judge(self, call: cst.Call) -> None:
        named = {a.keyword.value for a in call.args if a.keyword is not None}
        if not named <= _TOLD or len([a for a in call.args if a.keyword is None]) > 2 or not call.args:
            self._doubt("initialize is told what autocast does not know", call)
        level = value_of(call, "opt_level")
        if level is not None and string_value(level) not in (None, "O0", "O1", "O2"):
            self._doubt("this level computes in half precision throughout, its weights included", call)

    def _scaling(self, call: cst.Call) -> None:
        index = self.roles.index(call)
        item = index.parent(call)
        statement = index.parent(item) if item is not None else None
        name = item.asname.name if isinstance(item, cst.WithItem) and item.asname is not None else None
        plain = isinstance(statement, cst.With) and len(statement.items) == 1 and isinstance(name, cst.Name)
        if not plain or not call.args:
            self._doubt("scale_loss is not the one context of a with statement", call)
            return
        assert isinstance(statement, cst.With)
        assert isinstance(name, cst.Name)
        found = Scaled(statement, call.args[0].value, name.value)
        self._forward(index, found)
        self.scaled.append(found)

    def _forward(self, index: ModuleIndex, scaled: Scaled) -> None:
        """Go up from a ``with`` to the block in which its loss is computed."""
        current: cst.CSTNode = scaled.statement
        for outer in index.ancestors(scaled.statement):
            if isinstance(outer, (cst.IndentedBlock, cst.Module)):
                scaled.forward = self._above(list(outer.body), current)
                if scaled.forward:
                    return
            elif isinstance(outer, (cst.If, cst.With)):
                if isinstance(outer, cst.If):
                    scaled.ways.append((outer, index.within(current, outer.body)))
                current = outer
            elif not isinstance(outer, cst.Else):
                break
        self._doubt("the forward pass is not seen above the scaled loss", scaled.statement)

    def _above(self, lines: list[cst.CSTNode], statement: cst.CSTNode) -> list[cst.CSTNode]:
        """The statements of a block from the first forward pass behind the last backward pass or step."""
        position = next((i for i, line in enumerate(lines) if line is statement), 0)
        first = position
        for number in range(position - 1, -1, -1):
            done = self.effects.of(lines[number])
            if done & (Effect.BACKWARD | Effect.STEP):
                break
            if done & Effect.FORWARD:
                first = number
        while position > first and self.effects.of(lines[position - 1]) == Effect.OTHER:
            position -= 1  # zero_grad() computes nothing
        return lines[first:position]

    # ---- when it is on

    def enabled(self, scaled: Scaled) -> str | None:
        """When a forward pass computes in bfloat16, as a condition: empty for always, ``None`` if unknown."""
        self._either |= {guard for one in self.calls["initialize"] for guard in self._decided_alike(one)}
        clauses = {self._clause(call, scaled) for call in self.calls["initialize"]}
        return clauses.pop() if len(clauses) == 1 else None

    def _decided_alike(self, call: cst.Call) -> Iterator[cst.If]:
        """The innermost condition around a call, where its other way calls ``initialize`` as well."""
        here = self._ways(call)
        for other in self.calls["initialize"]:
            there = self._ways(other)
            if here and there and here[:-1] == there[:-1] and here[-1] == (there[-1][0], not there[-1][1]):
                yield here[-1][0]

    def _clause(self, call: cst.Call, scaled: Scaled) -> str | None:
        """Under what one call of ``initialize`` switches it on."""
        place = scaled.statement
        parts = [*self._conditions(call, scaled), self._told(call, place), self._level(call, place)]
        if None in parts:
            return None
        return " and ".join(dict.fromkeys(part for part in parts if part))

    def _conditions(self, call: cst.Call, scaled: Scaled) -> list[str | None]:
        """Under what ``initialize`` was called; where that is not at hand, under what the loss is scaled."""
        ways = self._ways(call)
        around = self._tests_around(scaled)
        if ways is not None:
            ways = [w for w in ways if w[0] not in self._either]
            found = [self._asked(*way, scaled.statement) for way in ways]
            if None not in found:
                return [text for text in found if text not in around]
        made = {name for line in scaled.forward for name in bound_names(line)}
        asked = {n.value for guard, _ in scaled.ways for n in walk(guard.test) if isinstance(n, cst.Name)}
        texts = [self._asked(*way, scaled.statement) for way in reversed(scaled.ways)]
        return texts if texts and not made & asked else [None]

    def _tests_around(self, scaled: Scaled) -> set[str | None]:
        """What holds anyway where the loss is computed."""
        start = scaled.forward[0] if scaled.forward else scaled.statement
        index = self.roles.index(start)
        outer = [a for a in index.ancestors(start) if isinstance(a, cst.If)]
        return {self._asked(g, index.within(start, g.body), start) for g in outer} - {None}

    def _ways(self, node: cst.CSTNode, depth: int = 0) -> list[tuple[cst.If, bool]] | None:
        """The conditions around a node, and around the one call of the function that it stands in."""
        index, found = self.roles.index(node), list[tuple[cst.If, bool]]()
        for outer in index.ancestors(node):
            if isinstance(outer, cst.If) and not is_main_guard(outer):
                found.append((outer, index.within(node, outer.body)))
            elif isinstance(outer, cst.FunctionDef):
                return self._around(outer, found[::-1], depth)
        return found[::-1]

    def _around(
        self, function: cst.FunctionDef, found: list[tuple[cst.If, bool]], depth: int
    ) -> list[tuple[cst.If, bool]] | None:
        calls = callers(self.roles, function) if depth < _DEEP else []
        sites = [self._ways(site, depth + 1) for site, _ in calls]
        if not any(site != [] for site in sites):
            return found
        more = sites[0] if len(sites) == 1 else None
        return [*more, *found] if more is not None else None

    def _asked(self, guard: cst.If, answer: bool, place: cst.CSTNode) -> str | None:
        """A condition as it is written at another place; ``None`` where it would be another one."""
        test, code = guard.test, self.roles.index(guard).source.code
        if any(isinstance(n, (cst.Call, cst.NamedExpr, cst.Await, cst.Lambda)) for n in walk(test)):
            return None
        parent = self.roles.index(test).parent
        names = [n for n in walk(test) if isinstance(n, (cst.Name, cst.Attribute))]
        names = [n for n in names if not isinstance(parent(n), cst.Attribute) and n.value not in _WORDS]
        if any(self._text(name, place) != code(name) for name in names):
            return None
        tight = isinstance(test, (cst.Name, cst.Attribute, cst.Subscript)) or bool(test.lpar)
        tight |= answer and isinstance(test, (cst.Comparison, cst.UnaryOperation))
        text = code(test) if tight else f"({code(test)})"
        return text if answer else f"not {text}"

    def _told(self, call: cst.Call, place: cst.CSTNode) -> str | None:
        given = argument(call, "enabled")
        if given is None or getattr(given.value, "value", "") == "True":
            return ""
        return self._text(given.value, place)

    def _level(self, call: cst.Call, place: cst.CSTNode) -> str | None:
        level = value_of(call, "opt_level")
        if level is None or string_value(level) is not None:
            return "False" if string_value(level) == "O0" else ""
        text = self._text(level, place)
        return f'{text} != "O0"' if text else None

    def _text(self, node: cst.BaseExpression, place: cst.CSTNode) -> str | None:
        """How an expression is spelled at another place; an option also by the parameter that brings it."""
        text = text_at(self.roles, node, place)
        if text or not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name):
            return text or None
        base, index = node.value, self.roles.index(place)
        function = index.function_of(place)
        owner = index.scope_of(place).owner(base.value)
        brings = function is not None and any(p.name.value == base.value for p in parameters(function))
        ours = owner is not None and owner is self.roles.index(base).scope_of(base).owner(base.value)
        options = self.roles.is_a(base, Kind.ARGUMENTS)
        return self.roles.index(node).source.code(node) if options and (ours or brings) else None


def _imported(index: ModuleIndex) -> Iterator[Binding]:
    for scope in index.scopes.values():
        for bindings in scope.bindings.values():
            yield from (b for b in bindings if b.how is How.IMPORT and _of_amp(b.name))


def _of_amp(path: str) -> bool:
    return path in ("apex", AMP) or path.startswith(f"{AMP}.")


def _local(binding: Binding) -> str:
    """The name under which something is imported."""
    alias = binding.node
    if isinstance(alias, cst.ImportAlias):
        if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
            return alias.asname.name.value
        return dotted(alias.name).partition(".")[0]
    return ""


def _tried(index: ModuleIndex, statement: cst.CSTNode) -> cst.Try | None:
    return next((a for a in index.ancestors(statement) if isinstance(a, cst.Try)), None)
