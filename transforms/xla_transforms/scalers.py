"""What becomes of gradient scalers: where they go, and what taking them out means on a target without.

A scaler is *unwound*, taken out with all its calls, where every use of it is understood; otherwise it is
kept and switched off, which leaves all calls as they are. A scaler is followed through variables,
attributes of ``self`` and parameters; all that one value may reach is decided together, because half a
scaler does not run. Source: pytorch v2.9, ``torch/amp/grad_scaler.py``: a disabled scaler's ``scale``
gives its argument, its ``step`` calls the optimizer's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import arriving_parameter, callers
from xla_transforms.roles.classes import find_method, is_self, related, set_through_self
from xla_transforms.scopes import Binding, How, ModuleIndex, Scope, parameters
from xla_transforms.tree import argument, children, method, receiver, same, string_key, string_value, walk

if TYPE_CHECKING:
    from xla_transforms.context import Context

CUDA_PATHS = frozenset({"torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"})
SHARDED_PATHS = frozenset(
    f"torch.distributed.fsdp.{module}ShardedGradScaler" for module in ("", "sharded_grad_scaler.")
)
PATHS = CUDA_PATHS | SHARDED_PATHS | {
    "torch.amp.GradScaler", "torch.amp.grad_scaler.GradScaler", "torch.GradScaler",
}  # fmt: skip
_NOTHING_LEFT = ("unscale_", "update", "load_state_dict")
Holder = tuple[object, str]


@dataclass(eq=False)
class Group:
    """The scalers that reach one another's places, and what taking them out means.

    ``removed`` are statements, parameters, arguments and entries that go, ``scaled`` the calls of ``scale``
    whose argument stays, ``choices`` the ``if`` statements both ways of which come to the same, each with
    the way to keep. ``doubts`` are what is not understood, each with the reason; ``asked`` the uses that
    only matter where they stay.
    """

    makers: list[cst.Call] = field(default_factory=list)
    holders: set[Holder] = field(default_factory=set)
    uses: dict[cst.CSTNode, None] = field(default_factory=dict)
    steps: set[cst.CSTNode] = field(default_factory=set)
    removed: dict[cst.CSTNode, None] = field(default_factory=dict)
    scaled: dict[cst.CSTNode, cst.BaseExpression] = field(default_factory=dict)
    choices: dict[cst.If, bool] = field(default_factory=dict)
    doubts: list[tuple[str, cst.CSTNode]] = field(default_factory=list)
    asked: list[tuple[str, cst.CSTNode]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    @property
    def understood(self) -> bool:
        return not self.doubts


SCALERS = "scalers"  # the unit of the changes that take scalers out: half a scaler does not run


def unwound(context: Context, scaler: cst.BaseExpression) -> bool:
    """Whether the scaler an expression gives is taken out of the script."""
    if context.target.has_grad_scaler:
        return False
    return any(scaler in group.uses and group.understood for group in groups(context))


def on_device(context: Context) -> bool:
    """Whether the program's scalers, all of them, become the one of torch_xla."""
    return context.target.has_grad_scaler and bool(groups(context))


def groups(context: Context) -> list[Group]:
    """The scalers made in the program; none where the module is left on CUDA."""
    if not context.uses_cuda:
        return []
    return context.scalers


def find_groups(roles: Roles) -> list[Group]:
    """Follow every scaler of a program."""
    found: list[Group] = []
    for call in made(roles):
        if not any(call in group.makers for group in found):
            group = Group()
            _Following(roles, group).made(call)
            found.append(group)
    for group in found:
        _Judging(roles, group).judge()
    return found


def made(roles: Roles) -> Iterator[cst.Call]:
    """The calls that make a gradient scaler for CUDA, in all modules."""
    for index in roles.program.modules.values():
        for call in index.all(cst.Call):
            assert isinstance(call, cst.Call)
            last = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
            if isinstance(call.func, cst.Name) or last.endswith("GradScaler"):
                paths = roles.spelled(call.func)
                if paths and paths <= PATHS and not _for_other_device(roles, call):
                    yield call


def _for_other_device(roles: Roles, call: cst.Call) -> bool:
    first = argument(call, "device", 0)
    places = roles.places(first.value) if first is not None else set()
    return bool(places) and not places & {"cuda", "?"}


class _Following:
    """Follows one scaler from the call that makes it to all its uses."""

    def __init__(self, roles: Roles, group: Group) -> None:
        self.roles = roles
        self.group = group

    def _doubt(self, reason: str, node: cst.CSTNode) -> None:
        self.group.doubts.append((reason, node))

    def _parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self.roles.index(node).parent(node)

    def made(self, call: cst.Call) -> None:
        if call not in self.group.makers:
            self.group.makers.append(call)
            self._flows(call)

    # ---- where a value goes

    def _flows(self, node: cst.CSTNode) -> None:
        parent = self._parent(node)
        if isinstance(parent, cst.IfExp) and parent.test is not node:
            other = parent.orelse if parent.body is node else parent.body
            self._flows(parent) if _is_none(other) else self._doubt("it is one of several values", node)
        elif isinstance(parent, (cst.Assign, cst.AnnAssign)):
            several = isinstance(parent, cst.Assign) and len(parent.targets) > 1
            self.group.removed[parent] = None
            target = parent.targets[0].target if isinstance(parent, cst.Assign) else parent.target
            self._doubt("it is given several names", node) if several else self._hold(target)
        elif isinstance(parent, cst.Arg):
            self._passed(parent)
        else:
            self._doubt("it goes where the analysis does not follow", node)

    def _hold(self, target: cst.BaseExpression) -> None:
        """Follow what holds the scaler: a variable or an attribute of ``self``."""
        index = self.roles.index(target)
        if isinstance(target, cst.Name):
            scope = index.scope_of(target)
            owner = scope.owner(target.value)
            self._variable(owner, target.value) if owner else self._doubt("its name is not bound", target)
        elif isinstance(target, cst.Attribute) and is_self(self.roles, target.value):
            owner_class = index.class_of(target)
            assert owner_class is not None
            self._attribute(owner_class, target.attr.value)
        else:
            self._doubt("it is kept in a container or in another object", target)

    def _new(self, holder: Holder) -> bool:
        new = holder not in self.group.holders
        self.group.holders.add(holder)
        return new

    def _variable(self, scope: Scope, name: str) -> None:
        if not self._new((scope, name)):
            return
        index = self.roles.index(scope.node)
        for binding in scope.bindings[name]:
            self._binding(binding)
        targets = {b.node for b in scope.bindings[name]}
        for node in index.named(name):
            listed = isinstance(index.parent(node), cst.NameItem)
            if node not in targets and not listed and index.scope_of(node).owner(name) is scope:
                self._used(node)
        if isinstance(scope.node, cst.Module) and self._imported_elsewhere(index, name):
            self._doubt("another module imports it", scope.bindings[name][0].node)

    def _imported_elsewhere(self, index: ModuleIndex, name: str) -> bool:
        others = (m for m in self.roles.program.modules.values() if m is not index)
        return any(
            binding.how is How.IMPORT and binding.name.split(".")[-1] == name
            for module in others
            for bindings in module.scopes[module.source.module].bindings.values()
            for binding in bindings
        )

    def _attribute(self, owner: cst.ClassDef, name: str) -> None:
        if not self._new((owner, name)):
            return
        for index in self.roles.program.modules.values():
            for node in _attributes(index, name):
                self._attribute_use(owner, node, index)
        for binding in set_through_self(self.roles, owner, name):
            self._binding(binding)
        for binding in self.roles.index(owner).scopes[owner].bindings.get(name, ()):
            self._doubt("the class has an attribute of this name", binding.node)

    def _attribute_use(self, owner: cst.ClassDef, node: cst.Attribute, index: ModuleIndex) -> None:
        parent = index.parent(node)
        annotated = isinstance(parent, cst.AnnAssign) and parent.target is node
        if isinstance(parent, cst.AssignTarget) or annotated:
            return
        if is_self(self.roles, node.value):
            if related(self.roles, index.class_of(node), owner):
                self._used(node)
        elif Kind.SCALER in self.roles.kinds(node):
            self._used(node)
        elif not self.roles.kinds(node):
            self._doubt("it may be read from outside its class", node)

    # ---- where a value comes from

    def _binding(self, binding: Binding) -> None:
        if binding.how is How.PARAMETER and isinstance(binding.statement, cst.FunctionDef):
            assert isinstance(binding.node, cst.Param)
            self._parameter(binding.node, binding.statement)
        elif binding.how is How.ASSIGN and binding.value is not None and not binding.path:
            self.group.removed[binding.statement] = None
            self._source(binding.value)
        elif isinstance(binding.statement, cst.AnnAssign) and binding.statement.value is None:
            self.group.removed[binding.statement] = None
        else:
            self._doubt("something else gives its name a value", binding.node)

    def _source(self, value: cst.BaseExpression) -> None:
        """An expression whose value a holder gets: it must be a scaler of the group, or ``None``."""
        if _is_none(value):
            return
        if isinstance(value, cst.IfExp):
            self._source(value.body)
            self._source(value.orelse)
        elif isinstance(value, cst.Call) and self.roles.spelled(value.func) & PATHS:
            self.made(value)
        elif isinstance(value, (cst.Name, cst.Attribute)):
            self._hold(value)
        else:
            self._doubt("where it comes from is not understood", value)

    def _parameter(self, param: cst.Param, function: cst.FunctionDef) -> None:
        self.group.removed[param] = None
        if param.default is not None and not _is_none(param.default):
            self._doubt("its parameter has a default of its own", param)
        sites = callers(self.roles, function)
        if not sites or self._called_otherwise(function, {site for site, _ in sites}):
            self._doubt("not all calls of its function are known", function)
        position = next(i for i, p in enumerate(parameters(function)) if p is param)
        for site, taken in sites:
            arg = argument(site, param.name.value, position - taken)
            if arg is not None:
                self.group.removed[arg] = None
                self._source(arg.value)
            if any(a.star for a in site.args) or (arg is None and param.default is None):
                self._doubt("a call does not show what it passes", site)

    def _called_otherwise(self, function: cst.FunctionDef, sites: set[cst.Call]) -> bool:
        """Whether a function is called, handed on or overridden where the analysis cannot see it."""
        name = function.name.value
        for call in self.roles.program.calls.get(name, ()):
            if call not in sites and not self.roles.kinds(call.func) and not self._of_another(call, function):
                return True
        for index in self.roles.program.modules.values():
            for node in [*index.named(name), *_attributes(index, name)]:
                handed_on = not self._is_callee(node) and node is not function.name
                if handed_on and any(f.node is function for f in self.roles.facts(node)):
                    return True
        return False

    def _of_another(self, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether it is a method that has the name of a function: ``model.train()`` beside ``def train``."""
        of_class = self.roles.index(function).class_of(function) is not None
        base = call.func.value if isinstance(call.func, cst.Attribute) and not of_class else None
        return bool(self.roles.kinds(base) - {Kind.NAME})

    def _is_callee(self, node: cst.CSTNode) -> bool:
        parent = self._parent(node)
        definition = isinstance(parent, (cst.FunctionDef, cst.ImportAlias))
        return definition or (isinstance(parent, cst.Call) and parent.func is node)

    # ---- what is done with it

    def _used(self, node: cst.CSTNode) -> None:
        self.group.uses[node] = None
        parent = self._parent(node)
        call = self._parent(parent) if isinstance(parent, cst.Attribute) else None
        if isinstance(call, cst.Call) and call.func is parent:
            self._called(call)
        elif isinstance(parent, (cst.Arg, cst.Assign, cst.AnnAssign)):
            self._flows(node)
        elif self._is_condition(node):
            self.group.asked.append(("a condition asks for it", node))
        else:
            self._doubt("it is used in a way that is not understood", node)

    def _is_condition(self, node: cst.CSTNode) -> bool:
        kinds = (cst.Comparison, cst.If, cst.IfExp, cst.BooleanOperation, cst.UnaryOperation)
        return isinstance(self._parent(node), kinds)

    def _called(self, call: cst.Call) -> None:
        name, parent = method(call), self._parent(call)
        if name == "scale" and len(call.args) == 1 and not call.args[0].star:
            self.group.scaled[call] = call.args[0].value
        elif name in _NOTHING_LEFT and isinstance(parent, cst.Expr) and (name != "update" or not call.args):
            self.group.removed[parent] = None
        elif name == "step" and len(call.args) == 1 and self.roles.kinds(receiver(call)) == {Kind.SCALER}:
            self.group.steps.add(call)
            if _imports_xla(self.roles.index(call)):
                self._doubt("the module is written for XLA already", call)
        elif name == "state_dict":
            self._stored(call)
        else:
            self.group.asked.append((f"its {name}() is used", call))

    def _stored(self, call: cst.Call) -> None:
        """``"scaler": scaler.state_dict()``: the entry of a checkpoint goes."""
        node: cst.CSTNode = call
        parent = self._parent(node)
        if isinstance(parent, cst.IfExp) and parent.test is not node:
            node, parent = parent, self._parent(parent)
        key: str | None = None
        if isinstance(parent, cst.DictElement) and parent.value is node:
            key = string_value(parent.key)
        elif isinstance(parent, cst.Assign) and len(parent.targets) == 1:
            target = parent.targets[0].target
            key = string_key(target) if isinstance(target, cst.Subscript) else None
        elif isinstance(parent, cst.Arg) and parent.keyword is not None:
            made_here = self._parent(parent)
            is_dict = isinstance(made_here, cst.Call) and self.roles.path(made_here.func) == "builtins.dict"
            key = parent.keyword.value if is_dict else None
        if key is None or parent is None:
            self._doubt("its state is stored in a way that is not understood", call)
            return
        self.group.removed[parent] = None
        self.group.keys.add(key)

    def _passed(self, arg: cst.Arg) -> None:
        call = self._parent(arg)
        functions = list(self._functions(call)) if isinstance(call, cst.Call) else []
        if not functions or arg.star or not isinstance(call, cst.Call):
            self._doubt("it is passed to a function that is not in sight", arg)
            return
        self.group.removed[arg] = None
        for function in functions:
            param = arriving_parameter(self.roles, function, call, arg)
            stars = (function.params.star_arg, function.params.star_kwarg)
            if param is None or param in stars:
                self._doubt("the parameter it arrives in is not known", arg)
            else:
                self._variable(self.roles.index(function).scopes[function], param.name.value)

    def _functions(self, call: cst.Call) -> Iterator[cst.FunctionDef]:
        for item in self.roles.facts(call.func):
            function = item.node
            if item.kind is Kind.CLASS and isinstance(function, cst.ClassDef):
                function = find_method(self.roles, function, "__init__")
            if isinstance(function, cst.FunctionDef):
                yield function


class _Judging:
    """Decides which doubts about a group remain when its statements are taken out."""

    def __init__(self, roles: Roles, group: Group) -> None:
        self.roles = roles
        self.group = group

    def judge(self) -> None:
        group = self.group
        for node in list(group.uses):
            self._choose(node)
        group.doubts += [(reason, node) for reason, node in group.asked if not self._gone(node)]
        for reader in self._readers():
            if not self._gone(reader):
                group.doubts.append(("its entry of a checkpoint is read", reader))

    def _gone(self, node: cst.CSTNode) -> bool:
        """Whether a node is taken out with something around it."""
        child = node
        for parent in self.roles.index(node).ancestors(node):
            if parent in self.group.removed:
                return True
            if isinstance(parent, cst.If) and parent in self.group.choices:
                kept = parent.body if self.group.choices[parent] else parent.orelse
                if child is not kept:
                    return True
            child = parent
        return False

    def _choose(self, node: cst.CSTNode) -> None:
        """Find the ``if`` around a use both ways of which come to the same without the scaler."""
        child = node
        for parent in self.roles.index(node).ancestors(node):
            if isinstance(parent, cst.FunctionDef):
                return
            if isinstance(parent, cst.If) and parent not in self.group.choices:
                kept = self._kept_way(parent, asked=child is parent.test)
                if kept is not None:
                    self.group.choices[parent] = kept
                return
            child = parent

    def _kept_way(self, guard: cst.If, *, asked: bool) -> bool | None:
        above = self.roles.index(guard).parent(guard)
        if (isinstance(above, cst.If) and above.orelse is guard) or not self._harmless(guard.test):
            return None
        body = self._lines(guard.body)
        if guard.orelse is None:
            return False if asked and not body else None
        if not isinstance(guard.orelse, cst.Else):
            return None
        other = self._lines(guard.orelse.body)
        if len(body) != len(other) or not all(map(self._alike, body, other)):
            return None
        return any(node in self.group.uses for node in walk(guard.orelse))

    def _harmless(self, test: cst.BaseExpression) -> bool:
        return not any(isinstance(n, (cst.Call, cst.NamedExpr, cst.Await)) for n in walk(test))

    def _lines(self, block: cst.BaseSuite) -> list[cst.CSTNode]:
        """The small and compound statements of a block that stay."""
        smalls: list[cst.CSTNode] = []
        for line in block.body:
            smalls += line.body if isinstance(line, cst.SimpleStatementLine) else [line]
        return [s for s in smalls if s not in self.group.removed and not isinstance(s, cst.Pass)]

    def _alike(self, left: object, right: object) -> bool:
        """Whether two pieces are written alike once the scaler is out of them."""
        left, right = self._plain(left), self._plain(right)
        if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
            return len(left) == len(right) and all(map(self._alike, left, right))
        if not isinstance(left, cst.CSTNode) or not isinstance(right, cst.CSTNode):
            return left == right
        optimizers = [self._stepped(left), self._stepped(right)]
        if optimizers[0] is not None and optimizers[1] is not None:
            return same(optimizers[0], optimizers[1])
        if type(left) is not type(right):
            return False
        inner = children(left), children(right)
        return self._alike(*inner) if inner[0] or inner[1] else same(left, right)

    def _plain(self, node: object) -> object:
        return self.group.scaled.get(node, node) if isinstance(node, cst.CSTNode) else node

    def _stepped(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """The optimizer that a call steps, by itself or through a scaler of the group."""
        if not isinstance(node, cst.Call) or method(node) != "step":
            return None
        return node.args[0].value if node in self.group.steps else None if node.args else receiver(node)

    def _readers(self) -> Iterator[cst.CSTNode]:
        """What reads an entry of a checkpoint that will no longer be written."""
        for index in self.roles.program.modules.values() if self.group.keys else ():
            for node in index.all(cst.Subscript):
                assert isinstance(node, cst.Subscript)
                written = isinstance(index.parent(node), cst.AssignTarget)
                if not written and string_key(node) in self.group.keys:
                    yield node
        for call in (*self.roles.program.calls.get("get", ()), *self.roles.program.calls.get("pop", ())):
            if call.args and string_value(call.args[0].value) in self.group.keys:
                yield call


def _attributes(index: ModuleIndex, name: str) -> Iterator[cst.Attribute]:
    for node in index.all(cst.Attribute):
        if isinstance(node, cst.Attribute) and node.attr.value == name:
            yield node


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _imports_xla(index: ModuleIndex) -> bool:
    bindings = (b for scope in index.scopes.values() for found in scope.bindings.values() for b in found)
    return any(b.how is How.IMPORT and b.name.split(".")[0] == "torch_xla" for b in bindings)
