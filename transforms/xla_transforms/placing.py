"""Where a device is at hand: the expression to write for "the device" at a place of the script.

A variable that holds the script's device is used where one is visible. Elsewhere the target's own
expression is written, or, where a function needs it twice, one new ``device = ...`` line above its uses.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.findings import Rule
from xla_transforms.naming import is_word, number_of, words
from xla_transforms.plan import Planned
from xla_transforms.roles import Kind, Roles
from xla_transforms.scopes import How, ModuleIndex, Scope, parameters
from xla_transforms.tree import dotted, method, number_value, value_of, walk

if TYPE_CHECKING:
    from xla_transforms.context import Context

VARIABLE = Rule(
    "XLA103",
    "device-variable",
    "A function that names the device several times gets one variable for it.",
    "torch_xla.device() is the process's own device (pytorch/xla v2.9.0, torch_xla/torch_xla.py).",
)
_NEW = "device"
_NAMES = re.compile(r"dev|gpu|cuda|acc", re.IGNORECASE)
_FLAG = re.compile(r"cuda|gpu|accel|device|cpu", re.IGNORECASE)


def device_at(context: Context, node: cst.CSTNode, change: Planned) -> str:
    """An expression that is the script's device at ``node``: a visible variable, else the target's own."""
    placing = context.placing
    found = placing.visible(node)
    if found is not None:
        return found.text
    if placing.introduced(node):
        return _NEW
    return change.spell(context.target.device)


def device_here(context: Context, node: cst.CSTNode, change: Planned) -> str:
    """The device for an unconditional use of CUDA: a variable that a flag can make the CPU will not do.

    Inside ``if use_cuda:`` the variable is the XLA device and may stand for it.
    """
    found = context.placing.visible(node)
    if found is not None and found.may_be_cpu and context.placing.guard_of(node) is None:
        return change.spell(context.target.device)
    return device_at(context, node, change)


def several_devices(context: Context) -> list[cst.CSTNode]:
    """The places that name a CUDA device by a constant number, where the module names different ones."""
    named = context.placing.numbered
    return [node for node, _ in named] if len({number for _, number in named}) > 1 else []


def may_be_cpu(context: Context, node: cst.CSTNode) -> bool:
    """Whether the user's own flags can make the device at ``node`` the CPU."""
    found = context.placing.visible(node)
    if found is not None:
        return found.may_be_cpu
    return bool(context.placing.guards)


def xla_test(context: Context, node: cst.CSTNode) -> str | None:
    """A condition that holds where the device at ``node`` is the XLA device: ``device.type == "xla"``.

    ``None`` where neither a device variable nor the flag that chooses the device is visible there.
    """
    found = context.placing.visible(node)
    kind = context.target.device_type
    if found is not None:
        test = f'{found.text} == "{kind}"' if found.word else f'{found.text}.type == "{kind}"'
        return f'str({found.text}).startswith("{kind}")' if found.mixed else test
    return context.placing.flag_at(node)


class Variable:
    """A variable (or attribute) that holds the script's device, as facts of an expression show it."""

    def __init__(self, roles: Roles, text: str, node: cst.CSTNode | None) -> None:
        self.text = text
        facts = {f for f in roles.facts(node) if f.kind is not Kind.NONE} if node is not None else set()
        self.kinds = {f.kind for f in facts} or {Kind.DEVICE}
        self.places = roles.places(node) if node is not None else {"cuda", "cpu"}
        self.word = Kind.DEVICE not in self.kinds and bool({Kind.STRING, Kind.OPTION} & self.kinds)
        self.mixed = Kind.DEVICE in self.kinds and Kind.STRING in self.kinds

    @property
    def holds_device(self) -> bool:
        if not self.kinds <= {Kind.DEVICE, Kind.STRING, Kind.OPTION, Kind.UNKNOWN}:
            return False
        if Kind.DEVICE in self.kinds:
            return bool(self.places - {"cpu", "meta"})
        return bool(self.places & {"cuda", "xla"}) or Kind.OPTION in self.kinds

    @property
    def may_be_cpu(self) -> bool:
        """Whether the CPU is among its values, or an option leaves the choice to the user."""
        return "cpu" in self.places or ("?" in self.places and len(self.places) > 1)


class Placing:
    """The device variables of one module, those it has and those it gets."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._variables: dict[tuple[Scope, str], Variable | None] = {}
        self._regions: dict[cst.CSTNode, list[cst.CSTNode]] | None = None
        self._anchors: dict[cst.CSTNode, cst.CSTNode | None] = {}
        self._declarations: list[tuple[cst.CSTNode, str]] = []
        self._counted: set[cst.CSTNode] = set()
        self._flags: list[tuple[cst.If, bool]] | None = None

    @property
    def index(self) -> ModuleIndex:
        return self.context.index

    @property
    def roles(self) -> Roles:
        return self.context.roles

    # ---- variables the script has

    def visible(self, node: cst.CSTNode) -> Variable | None:
        """The script's own device variable at a place, the nearest one."""
        scope: Scope | None = self.index.scope_of(node)
        first = True
        while scope is not None:
            if first or not isinstance(scope.node, cst.ClassDef):
                found = (
                    self._declared(scope, node)
                    or self._named(scope, node)
                    or (self._of_self(scope, node) if first else None)
                )
                found = found or self._of_arguments(scope, node)
                if found is not None:
                    return found
            if isinstance(scope.node, (cst.FunctionDef, cst.ClassDef)):
                first = first and isinstance(scope.node, cst.ClassDef)
            scope = scope.parent
        return None

    def declare(self, statement: cst.CSTNode, text: str) -> None:
        """Note that a pass binds a device variable, the CPU where the user says so, above a statement."""
        self._declarations.append((statement, text))

    def _declared(self, scope: Scope, node: cst.CSTNode) -> Variable | None:
        for statement, text in self._declarations:
            own = self.index.scope_of(statement) is scope
            inner = self.index.scope_of(node) is not scope
            if own and (inner or self._precedes(statement, node) or self.index.within(node, statement)):
                return Variable(self.roles, text, None)
        return None

    def _named(self, scope: Scope, node: cst.CSTNode) -> Variable | None:
        names = [n for n in scope.bindings if _NAMES.search(n)]
        for name in sorted(names, key=lambda n: (n != "device", not n.startswith("dev"), n)):
            variable = self._variable(scope, name)
            if variable is not None and self._bound_before(scope, name, node):
                return variable
        return None

    def _variable(self, scope: Scope, name: str) -> Variable | None:
        key = (scope, name)
        if key not in self._variables:
            self._variables[key] = self._judge(scope, name)
        return self._variables[key]

    def _judge(self, scope: Scope, name: str) -> Variable | None:
        uses = [
            n
            for n in self.index.named(name)
            if self.index.scope_of(n).owner(name) is scope and not self._is_target(scope, name, n)
        ]
        for use in uses:
            variable = Variable(self.roles, name, use)
            if variable.holds_device:
                return variable
            if variable.kinds == {Kind.UNKNOWN} and self._used_as_device(use):
                return variable
        values = [b.value for b in scope.bindings[name] if b.value is not None and not b.path]
        variables = [Variable(self.roles, name, value) for value in values if not uses]
        return variables[0] if variables and variables[0].holds_device else None

    def _is_target(self, scope: Scope, name: str, node: cst.CSTNode) -> bool:
        return any(b.node is node for b in scope.bindings[name])

    def _used_as_device(self, use: cst.CSTNode) -> bool:
        """Whether a name of unknown origin is called a device and handed on as one: ``x.to(device)``."""
        arg = self.index.parent(use)
        call = self.index.parent(arg) if arg is not None else None
        if not isinstance(arg, cst.Arg) or not isinstance(call, cst.Call) or not isinstance(use, cst.Name):
            return False
        keyword = arg.keyword.value if arg.keyword else ""
        wanted = keyword == "device" or (method(call) == "to" and call.args[0] is arg)
        return wanted and use.value.lower().startswith("dev")

    def _bound_before(self, scope: Scope, name: str, node: cst.CSTNode) -> bool:
        bindings = scope.bindings[name]
        if self.index.scope_of(node) is not scope and self._function(node) is not self._own(scope):
            return not any(b.how is How.AUGMENT for b in bindings)
        return any(b.how is How.PARAMETER or self._precedes(b.statement, node) for b in bindings)

    def _own(self, scope: Scope) -> cst.CSTNode | None:
        return scope.node if isinstance(scope.node, cst.FunctionDef) else None

    def _function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        return self.index.function_of(node)

    def _precedes(self, statement: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether a statement stands, in a block around ``node``, above what holds ``node``."""
        around = {node, *self.index.ancestors(node)}
        current: cst.CSTNode | None = statement
        while current is not None:
            parent = self.index.parent(current)
            if parent in around:
                offsets = self.index.source.offsets
                holds = current in around
                return not holds and offsets(current)[0] < offsets(node)[0] and _sequence(parent)
            current = parent
        return False

    def _of_self(self, scope: Scope, node: cst.CSTNode) -> Variable | None:
        """``self.device``, where the class sets it, outside of and below its assignment."""
        owner = self.index.class_of(node)
        function = self._method_around(node)
        if function is None or owner is None or not parameters(function):
            return None
        name = parameters(function)[0].name.value
        for attribute in self._attributes_of(owner, name):
            variable = Variable(self.roles, f"{name}.{attribute.attr.value}", attribute)
            if variable.holds_device and self._set_before(attribute, function, node):
                return variable
        return None

    def _method_around(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The method in whose body (or inner functions) a node stands."""
        found: cst.FunctionDef | None = None
        for parent in self.index.ancestors(node):
            if isinstance(parent, cst.ClassDef):
                return found
            found = parent if isinstance(parent, cst.FunctionDef) else found
        return None

    def _attributes_of(self, owner: cst.ClassDef, name: str) -> Iterator[cst.Attribute]:
        for attr, bindings in self.index.attributes.items():
            for binding in bindings if _NAMES.search(attr) else ():
                target = binding.node
                own = self.index.class_of(target) is owner
                if own and isinstance(target, cst.Attribute) and dotted(target.value) == name:
                    yield target

    def _set_before(self, target: cst.Attribute, function: cst.CSTNode, node: cst.CSTNode) -> bool:
        setter = self._function(target)
        if setter is function:
            statement = self.index.statement_of(target)
            return statement is not None and self._precedes(statement, node)
        return setter is not None and setter.name.value == "__init__"

    def _of_arguments(self, scope: Scope, node: cst.CSTNode) -> Variable | None:
        """``args.device``, where the script uses it so and ``args`` is bound in this scope."""
        for read in self._option_reads:
            base = read.value
            assert isinstance(base, cst.Name)
            if self.index.scope_of(read).owner(base.value) is scope:
                variable = Variable(self.roles, dotted(read), read)
                if variable.holds_device and self._bound_before(scope, base.value, node):
                    return variable
        return None

    @cached_property
    def _option_reads(self) -> list[cst.Attribute]:
        return [
            n
            for n in self.index.all(cst.Attribute)
            if isinstance(n, cst.Attribute)
            and isinstance(n.value, cst.Name)
            and "device" in n.attr.value.lower()
            and Kind.ARGUMENTS in self.roles.kinds(n.value)
        ]

    @cached_property
    def numbered(self) -> list[tuple[cst.CSTNode, int]]:
        """Every device named by a constant number: ``"cuda:1"``, ``.cuda(1)``, ``torch.device("cuda", 1)``."""
        found: list[tuple[cst.CSTNode, int]] = [
            (word, number) for word in words(self.index) if (number := number_of(word)) is not None
        ]
        for call in self.index.all(cst.Call):
            assert isinstance(call, cst.Call)
            given = number_value(self._number_given(call))
            if isinstance(given, int):
                found.append((call, given))
        return found

    def _number_given(self, call: cst.Call) -> cst.CSTNode | None:
        if self.roles.path(call.func) == "torch.device":
            return value_of(call, "index", 1) or value_of(call, "type", 0)
        if self._is_move(call) or (method(call) == "to" and call.args):
            return value_of(call, "device", 0)
        return None

    # ---- the flag that chooses the device where there is no variable

    @property
    def guards(self) -> list[tuple[cst.If, bool]]:
        """The ``if use_cuda:`` statements whose other way leaves the work on the CPU."""
        if self._flags is None:
            moves = [c for c in self.context.program.calls.get("cuda", ()) if self._is_move(c)]
            found = {g: None for c in moves if (g := self.guard_of(c)) is not None}
            self._flags = list(found)
        return self._flags

    def _is_move(self, call: cst.Call) -> bool:
        here = self.roles.index(call) is self.index
        return here and is_move(self.roles, call)

    def guard_of(self, node: cst.CSTNode) -> tuple[cst.If, bool] | None:
        """The ``if`` whose flag lets ``node`` run on the device only, and in which way of it it stands."""
        child = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, (cst.FunctionDef, cst.Lambda)):
                return None
            if isinstance(parent, cst.If) and child is not parent.test and self._chooses(parent, child):
                return parent, child is parent.body
            child = parent
        return None

    def _chooses(self, guard: cst.If, way: cst.CSTNode) -> bool:
        other = guard.orelse if way is guard.body else guard.body
        if self.roles.fold(guard.test) is not None or not is_flag(guard.test):
            return False
        return other is None or not any(_names_cuda(n) for n in walk(other))

    def flag_at(self, node: cst.CSTNode) -> str | None:
        """The text of the flag that chooses the device, where its names are visible at ``node``."""
        for guard, positive in self.guards:
            test = self._residual(guard.test)
            if test is not None and self._all_visible(test, node):
                text = self.index.source.code(test)
                simple = isinstance(test, (cst.Name, cst.Attribute))
                return text if positive else f"not {text}" if simple else f"not ({text})"
        return None

    def _residual(self, test: cst.BaseExpression) -> cst.BaseExpression | None:
        """The part of a condition that the move leaves open, if that is one piece of its text."""
        if isinstance(test, cst.BooleanOperation):
            for side, other in ((test.left, test.right), (test.right, test.left)):
                if self.roles.fold(side) is not None:
                    return self._residual(other)
        return test

    def _all_visible(self, test: cst.BaseExpression, node: cst.CSTNode) -> bool:
        for name in walk(test):
            if not isinstance(name, cst.Name) or self._is_attribute_name(name):
                continue
            owner = self.index.scope_of(name).owner(name.value)
            if owner is None or owner is not self.index.scope_of(node).owner(name.value):
                return False
            if not self._bound_before(owner, name.value, node):
                return False
        return True

    def _is_attribute_name(self, name: cst.Name) -> bool:
        parent = self.index.parent(name)
        return isinstance(parent, cst.Attribute) and parent.attr is name

    # ---- variables the script gets

    def introduced(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` may use a new variable; plans the line that binds it."""
        if self.guard_of(node) is not None:
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
        owner = self.index.scope_of(node).owner(_NEW)
        if owner is not None:
            return False
        if isinstance(region, cst.Module) and self._function(node) is not None:
            return True
        return anchor is node or self.index.within(node, anchor) or self._precedes(anchor, node)

    def _anchor(self, region: cst.CSTNode) -> cst.CSTNode | None:
        """The statement above which a region binds its new variable; ``None`` where it gets none."""
        if region not in self._anchors:
            self._anchors[region] = None
            needs = self._needs.get(region, [])
            if self._worth_it(region, needs):
                anchor = self._first_statement(region, needs)
                self._anchors[region] = anchor
                if anchor is not None:
                    change = self.context.plan.change(VARIABLE, anchor, "one variable holds the device")
                    change.before(anchor, f"{_NEW} = {change.spell(self.context.target.device)}")
        return self._anchors[region]

    def _worth_it(self, region: cst.CSTNode, needs: list[cst.CSTNode]) -> bool:
        if isinstance(region, cst.Module):
            everywhere = [n for found in self._needs.values() for n in found]
            free = not any(n for n in self.index.named(_NEW) if self._unbound_use(n))
            return bool(needs) and len(everywhere) > 1 and free and not self._bound_in(region)
        free = not any(self.index.within(n, region) for n in self.index.named(_NEW))
        assert isinstance(region, cst.FunctionDef)
        return len(needs) > 1 and free and not any(p.name.value == _NEW for p in parameters(region))

    def _unbound_use(self, name: cst.Name) -> bool:
        owner = self.index.scope_of(name).owner(_NEW)
        return owner is None or isinstance(owner.node, cst.Module)

    def _bound_in(self, region: cst.CSTNode) -> bool:
        return bool(self.index.scopes[region].bindings.get(_NEW))

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

    @property
    def _needs(self) -> dict[cst.CSTNode, list[cst.CSTNode]]:
        """What needs a device and sees no variable for it, by module or outermost function."""
        if self._regions is None:
            self._regions = defaultdict(list)
            for node in self._wanting():
                if self.roles.index(node) is not self.index or node in self._counted:
                    continue
                self._counted.add(node)
                if self.visible(node) is None and self.guard_of(node) is None and not self.roles.dead(node):
                    *_, region = self._regions_of(node)
                    self._regions[region].append(node)
        return self._regions

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


def is_move(roles: Roles, call: cst.Call) -> bool:
    """Whether a call is ``x.cuda()`` of a tensor or a module."""
    path = roles.path(call.func)
    return method(call) == "cuda" and (not path or path.startswith("builtins."))


def wants_device(roles: Roles, call: cst.Call) -> bool:
    """Whether a call moves something to the CUDA device without naming a variable: ``x.cuda()``."""
    name, path = method(call), roles.path(call.func)
    if is_move(roles, call):
        given = value_of(call, "device", 0)
        return given is None or Kind.DEVICE not in roles.kinds(given)
    if path.startswith("torch.cuda.") and path.endswith("Tensor"):
        return True
    given = value_of(call, "device", 0 if name == "to" else None)
    if given is None or not (name == "to" or path.startswith("torch.")) or path == "torch.device":
        return False
    return is_word(given) or (name == "to" and roles.kinds(given) == {Kind.NUMBER})


def is_flag(test: cst.BaseExpression) -> bool:
    """Whether a condition is the user's choice of a device: ``use_cuda``, ``args.gpu >= 0``."""
    compared = [n.operator for n in walk(test) if isinstance(n, cst.ComparisonTarget)]
    if any(isinstance(operator, (cst.Is, cst.IsNot)) for operator in compared):
        return False
    names = [n.value for n in walk(test) if isinstance(n, cst.Name)]
    return any(_FLAG.search(n) for n in names)


def _names_cuda(node: cst.CSTNode) -> bool:
    return is_word(node) or (isinstance(node, cst.Attribute) and node.attr.value == "cuda")


def _sequence(node: cst.CSTNode | None) -> bool:
    """Whether what a node holds runs one after the other."""
    return isinstance(
        node, (cst.IndentedBlock, cst.Module, cst.SimpleStatementLine, cst.SimpleStatementSuite)
    )


def _is_main(statement: cst.CSTNode) -> bool:
    test = statement.test if isinstance(statement, cst.If) else None
    return isinstance(test, cst.Comparison) and dotted(test.left) == "__name__"
