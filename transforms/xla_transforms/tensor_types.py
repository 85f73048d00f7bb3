"""Tensor types that go by a name: every place they come from, and every call they arrive in."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from xla_transforms.naming import reads
from xla_transforms.roles import Roles
from xla_transforms.roles.calls import arriving_parameter, callers
from xla_transforms.roles.types import DTYPES
from xla_transforms.scopes import Binding, How, parameters
from xla_transforms.tree import method, string_value, value_of

_PLACES = {"torch.cuda": "cuda", "torch": "cpu"}


def type_at(roles: Roles, node: cst.CSTNode) -> tuple[str, str] | None:
    """``("cuda", "FloatTensor")`` for ``torch.cuda.FloatTensor`` or the string of it, written out.

    ``torch.Tensor`` is the default type, which is ``torch.FloatTensor``.
    """
    if isinstance(node, cst.Name):
        return None
    path = string_value(node) or roles.path(node)
    home, _, name = path.replace("torch.Tensor", "torch.FloatTensor").rpartition(".")
    return (_PLACES[home], name) if home in _PLACES and name in DTYPES else None


@dataclass(eq=False)
class Named:
    """The types that share names, and the calls that make a tensor of them (``made``) or cast to them."""

    types: dict[cst.BaseExpression, tuple[str, str]] = field(default_factory=dict)
    made: list[cst.Call] = field(default_factory=list)
    casts: list[cst.Call] = field(default_factory=list)
    named: bool = False
    lost: bool = False

    @property
    def names(self) -> set[str]:
        return {name for _, name in self.types.values()}

    @property
    def places(self) -> set[str]:
        return {place for place, _ in self.types.values()}


def follow(roles: Roles, node: cst.BaseExpression) -> Named:
    """What shares a name with a type that is written out; ``lost`` where it goes out of sight."""
    walk = _Walk(roles)
    walk.comes(node)
    walk.goes(node)
    return walk.found


class _Walk:
    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self.found = Named()
        self._seen: set[cst.CSTNode] = set()
        self._bindings: list[Binding] = []

    def comes(self, value: cst.BaseExpression | None) -> None:
        """Note the types in an expression, and go to what binds the names in it."""
        if isinstance(value, cst.IfExp):
            self.comes(value.body)
            self.comes(value.orelse)
        elif isinstance(value, cst.Name):
            for binding in self.roles.bindings(value):
                self._bound(binding)
        elif value is not None and (written := type_at(self.roles, value)) is not None:
            if value not in self.found.types:
                self.found.types[value] = written
                self.goes(value)
        else:
            self.found.lost = True

    def goes(self, node: cst.BaseExpression) -> None:
        """Go to where an expression's value arrives."""
        parent = self.roles.index(node).parent(node)
        if isinstance(parent, cst.IfExp) and parent.test is not node:
            self.goes(parent)
        elif isinstance(parent, cst.Assign) and isinstance(parent.targets[0].target, cst.Name):
            self.found.lost |= len(parent.targets) > 1
            self._target(parent.targets[0].target)
        elif isinstance(parent, cst.Param) and parent.default is node:
            self._target(parent)
        elif isinstance(parent, cst.Arg):
            self._argument(node, parent)
        elif isinstance(parent, cst.Call) and parent.func is node:
            self.found.made.append(parent)
        else:
            self.found.lost = True

    def _argument(self, node: cst.BaseExpression, arg: cst.Arg) -> None:
        call = self.roles.index(node).parent(arg)
        assert isinstance(call, cst.Call)
        if method(call) == "type" and value_of(call, "dtype", 0) is node:
            self.found.casts.append(call)
            return
        functions = [f.node for f in self.roles.facts(call.func)]
        for function in functions or [None]:
            param = None
            if isinstance(function, cst.FunctionDef):
                param = arriving_parameter(self.roles, function, call, arg)
            self.found.lost |= param is None
            if param is not None:
                self._target(param)

    def _target(self, target: cst.Name | cst.Param) -> None:
        """Go to the reads of a name or a parameter, and to whatever else they may see."""
        if target in self._seen:
            return
        self._seen.add(target)
        self.found.named = True
        name = target.value if isinstance(target, cst.Name) else target.name.value
        self.found.lost |= self._leaves(target, name)
        if isinstance(target, cst.Param):
            self._arguments(target)
        for read in reads(self.roles, target, name):
            self.goes(read)
            self.comes(read)

    def _leaves(self, target: cst.CSTNode, name: str) -> bool:
        """Whether another module may read a name of this one."""
        index = self.roles.index(target)
        if index.scopes[index.source.module] is not index.scope_of(target).owner(name):
            return False
        others = (other for other in self.roles.program.modules.values() if other is not index)
        return any(other.named(name) or other.attributed(name) for other in others)

    def _bound(self, binding: Binding) -> None:
        if binding in self._bindings:
            return
        self._bindings.append(binding)
        if binding.how is How.PARAMETER and isinstance(binding.node, cst.Param):
            self._target(binding.node)
        elif isinstance(binding.node, cst.Name) and not binding.path and binding.value is not None:
            self._target(binding.node)
            self.comes(binding.value)
        else:
            self.found.lost = True

    def _arguments(self, param: cst.Param) -> None:
        """Note what the calls of a function give to its parameter."""
        index = self.roles.index(param)
        function = next((a for a in index.ancestors(param) if isinstance(a, cst.FunctionDef)), None)
        sites = callers(self.roles, function) if function is not None else []
        if function is None or not sites:
            self.found.lost = True
            return
        position = parameters(function).index(param)
        for site, taken in sites:
            value = value_of(site, param.name.value, position - taken) or param.default
            self.comes(value)
