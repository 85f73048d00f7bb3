"""Classes of the program, their instances, and what attributes of things are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles import calls, declared, ranks
from xla_transforms.roles import evaluate as ev
from xla_transforms.roles.catalog import BASES, TENSOR_ATTRIBUTES
from xla_transforms.roles.facts import NOTHING, UNKNOWN, Fact, Facts, Kind, fact, known, of_kind, says
from xla_transforms.scopes import Binding, How, parameters
from xla_transforms.tree import method, receiver, same, string_value, value_of, walk

if TYPE_CHECKING:
    from xla_transforms.roles import Roles


def instance(roles: Roles, node: cst.CSTNode) -> Facts:
    """What calling a class gives: an instance, and the role its bases stand for."""
    assert isinstance(node, cst.ClassDef)
    kind = role_of(roles, node)
    if kind is Kind.MODEL:
        return fact(Kind.MODEL, node.name.value, node)
    own = fact(Kind.INSTANCE, node.name.value, node)
    return own | fact(kind, node.name.value, node) if kind is not None else own


def role_of(roles: Roles, node: cst.ClassDef) -> Kind | None:
    """The role of a class's instances by its bases: a model, a data set, a sampler, an optimizer."""
    for base in bases(roles, node):
        if isinstance(base, str):
            for prefix, kind in BASES:
                if base.startswith(prefix):
                    return kind if kind is not Kind.UNKNOWN else None
    return None


def is_optimizer(roles: Roles, node: cst.CSTNode | None) -> bool:
    """Whether an expression is an optimizer, be it of a class of the program that updates by itself."""
    kinds = roles.kinds(node)
    if node is None or kinds not in ({Kind.OPTIMIZER}, {Kind.OPTIMIZER, Kind.INSTANCE}):
        return False
    own = [f.node for f in roles.facts(node) if f.kind is Kind.INSTANCE]
    return all(isinstance(n, cst.ClassDef) and _updates_itself(roles, n) for n in own)


def _updates_itself(roles: Roles, node: cst.ClassDef) -> bool:
    """Whether the step of an optimizer's class comes to no step of another optimizer."""
    if role_of(roles, node) is not Kind.OPTIMIZER:
        return False
    waiting: list[cst.CSTNode | None] = [find_method(roles, node, "step")]
    seen: set[cst.CSTNode] = set()
    while waiting:
        function = waiting.pop()
        if not isinstance(function, cst.FunctionDef) or function in seen:
            continue
        seen.add(function)
        for call in (n for n in walk(function.body) if isinstance(n, cst.Call)):
            if method(call) == "step" and not _of_super(roles, call):
                return False
            waiting += [f.node for f in roles.facts(call.func) if f.kind is Kind.FUNCTION]
    return True


def _of_super(roles: Roles, call: cst.Call) -> bool:
    """``super().step()``"""
    base = receiver(call)
    return isinstance(base, cst.Call) and roles.path(base.func) == "builtins.super"


def bases(roles: Roles, node: cst.ClassDef, depth: int = 0) -> list[cst.ClassDef | str]:
    """All bases, nearest first: classes of the program as nodes, others as dotted paths."""
    if depth:
        return _bases(roles, node, depth)
    return roles.remembered(("bases", id(node)), lambda: _bases(roles, node, 0))


def _bases(roles: Roles, node: cst.ClassDef, depth: int) -> list[cst.ClassDef | str]:
    found: list[cst.ClassDef | str] = []
    for arg in node.bases:
        base = arg.value.value if isinstance(arg.value, cst.Subscript) else arg.value
        for item in roles.facts(base):
            if item.kind is Kind.NAME:
                found.append(item.detail)
            elif isinstance(item.node, cst.ClassDef) and item.kind is Kind.CLASS and depth < 8:
                found.append(item.node)
                found.extend(bases(roles, item.node, depth + 1))
    return found


def subclasses(roles: Roles, node: cst.ClassDef) -> list[cst.ClassDef]:
    """The classes of the program that inherit from one, directly or not."""
    return roles.remembered("subclasses", lambda: _subclasses(roles)).get(node, [])


def _subclasses(roles: Roles) -> dict[cst.ClassDef, list[cst.ClassDef]]:
    found: dict[cst.ClassDef, list[cst.ClassDef]] = {}
    for index in roles.program.modules.values():
        for node in index.all(cst.ClassDef):
            assert isinstance(node, cst.ClassDef)
            for base in lineage(roles, node)[1:]:
                found.setdefault(base, []).append(node)
    return found


def lineage(roles: Roles, node: cst.ClassDef) -> list[cst.ClassDef]:
    return [node, *(b for b in bases(roles, node) if isinstance(b, cst.ClassDef))]


def related(roles: Roles, one: cst.ClassDef | None, other: cst.ClassDef) -> bool:
    """Whether an attribute set through ``self`` in one class is seen by the other's instances."""
    if one is None:
        return False
    return one in lineage(roles, other) or other in lineage(roles, one)


def find_method(roles: Roles, node: cst.ClassDef, name: str) -> cst.FunctionDef | None:
    for owner in lineage(roles, node):
        for statement in owner.body.body:
            if isinstance(statement, cst.FunctionDef) and statement.name.value == name:
                return statement
    return None


def users(roles: Roles, owner: cst.ClassDef, function: cst.FunctionDef) -> list[cst.ClassDef]:
    """The class of a method and the subclasses that have it from there."""
    family = [owner, *subclasses(roles, owner)]
    return [c for c in family if find_method(roles, c, function.name.value) is function]


def attribute_of(roles: Roles, item: Fact, attr: str, node: cst.CSTNode) -> Facts:
    """What ``.attr`` of something with this one fact is; ``node`` is where that is asked."""
    if item.kind is Kind.NAME:
        return ev.named(roles, f"{item.detail}.{attr}", node)
    if isinstance(item.node, cst.ClassDef):
        found = of_class(roles, item.node, attr)
        if says(found):
            return found
    if item.kind is Kind.ARGUMENTS and isinstance(item.node, cst.Call):
        return calls.option(roles, attr)
    if item.kind is Kind.TENSOR:
        kind, detail = TENSOR_ATTRIBUTES.get(attr, (Kind.TENSOR, item.detail))
        return fact(Kind.DEVICE, "?") if attr == "device" else fact(kind, detail)
    if item.kind is Kind.LOADER and attr in ("dataset", "sampler"):
        return fact(Kind.DATASET if attr == "dataset" else Kind.SAMPLER)
    if item.kind is Kind.MODEL:
        return _of_model(item, attr)
    if item.kind is Kind.DEVICE and attr == "type":
        return fact(Kind.STRING, item.detail)
    return UNKNOWN


def overridden(roles: Roles, node: cst.Attribute) -> Facts:
    """The methods that subclasses of the program define anew for ``self.method``: it may be theirs."""
    owner = roles.index(node).class_of(node)
    return _redefined(roles, owner, node.attr.value) if owner is not None else NOTHING


def _redefined(roles: Roles, owner: cst.ClassDef, name: str) -> Facts:
    found: set[Fact] = set()
    for sub in subclasses(roles, owner):
        for binding in roles.index(sub).scopes[sub].bindings.get(name, ()):
            if isinstance(binding.node, cst.FunctionDef):
                found |= _in_body(roles, binding)
    return frozenset(found)


def _of_model(item: Fact, attr: str) -> Facts:
    if attr == "module":
        return frozenset({item})
    if attr in ("weight", "bias", "data"):
        return fact(Kind.TENSOR, "device")
    return UNKNOWN


def of_class(roles: Roles, node: cst.ClassDef, attr: str) -> Facts:
    """What an attribute of a class's instances is: by class body, by ``self.attr = ...``, by constructor."""
    return roles.remembered(("of class", id(node), attr), lambda: _of_class(roles, node, attr))


def _of_class(roles: Roles, node: cst.ClassDef, attr: str) -> Facts:
    found: set[Fact] = set()
    for owner in lineage(roles, node):
        scope = roles.index(owner).scopes[owner]
        for binding in scope.bindings.get(attr, ()):
            found |= _in_body(roles, binding)
        if found:
            break
    for binding in set_through_self(roles, node, attr):
        with roles.guarded(binding.node) as free:
            found |= ev.bound(roles, binding) if free else NOTHING
    found |= buffer(roles, node, attr)
    if find_method(roles, node, "__init__") is None:
        found |= _from_keywords(roles, node, attr)
    if any(f.detail == "declared" for f in found):  # what a field is declared to be stands for the unknown
        found -= UNKNOWN
    return frozenset(found)


def buffer(roles: Roles, node: cst.ClassDef, attr: str) -> Facts:
    """What ``self.register_buffer("queue", ...)`` makes: a tensor that goes where its model goes."""
    for owner, call in roles.remembered("buffers", lambda: _buffers(roles)).get(attr, ()):
        if related(roles, owner, node):
            value = value_of(call, "tensor", 1)
            nothing = value is None or getattr(value, "value", "") == "None"
            return NOTHING if nothing else fact(Kind.TENSOR, "device")
    return NOTHING


def _buffers(roles: Roles) -> dict[str, list[tuple[cst.ClassDef, cst.Call]]]:
    """The buffers that classes of the program register, by name, each with its class."""
    found: dict[str, list[tuple[cst.ClassDef, cst.Call]]] = defaultdict(list)
    for call in roles.program.calls.get("register_buffer", ()):
        owner, name = roles.index(call).class_of(call), string_value(value_of(call, "name", 0))
        if owner is not None and name is not None and is_self(roles, receiver(call) or call):
            found[name].append((owner, call))
    return found


def is_property(roles: Roles, function: cst.FunctionDef) -> bool:
    """Whether a method computes an attribute of the object."""
    names = {roles.path(d.decorator) for d in function.decorators}
    return not names.isdisjoint({"builtins.property", "functools.cached_property"})


def _in_body(roles: Roles, binding: Binding) -> Facts:
    if not isinstance(binding.node, cst.FunctionDef):
        annotated = isinstance(binding.statement, cst.AnnAssign) and binding.how is How.OTHER
        note = binding.statement.annotation if isinstance(binding.statement, cst.AnnAssign) else None
        return declared.annotation(roles, note) if annotated else ev.bound(roles, binding)
    names = {roles.path(d.decorator) for d in binding.node.decorators}
    if is_property(roles, binding.node):
        return calls.returns(roles, binding.node)
    static = "builtins.staticmethod" in names
    own = fact(Kind.FUNCTION, "" if static else "bound", binding.node)
    if "abc.abstractmethod" not in names:
        return own
    owner = roles.index(binding.node).class_of(binding.node)
    return (_redefined(roles, owner, binding.node.name.value) if owner is not None else NOTHING) or own


def set_through_self(roles: Roles, node: cst.ClassDef, attr: str) -> list[Binding]:
    """What sets ``self.attr`` in the methods of a class and its relatives: assignments, or ``locals()``."""
    assigned = [binding for owner, binding in _through_self(roles, attr) if related(roles, owner, node)]
    return assigned + _from_locals(roles, node, attr)


def _through_self(roles: Roles, attr: str) -> list[tuple[cst.ClassDef, Binding]]:
    """Every ``self.attr = ...`` of the program, each with its class."""
    return roles.remembered(("through self", attr), lambda: list(_self_assignments(roles, attr)))


def _self_assignments(roles: Roles, attr: str) -> Iterator[tuple[cst.ClassDef, Binding]]:
    for binding in roles.program.attributes.get(attr, ()):
        target = binding.node
        owner = roles.index(target).class_of(target)
        if owner is not None and isinstance(target, cst.Attribute) and is_self(roles, target.value):
            yield owner, binding


def _from_locals(roles: Roles, node: cst.ClassDef, attr: str) -> list[Binding]:
    """The variables that ``self.__dict__.update(locals())`` makes attributes of a class's instances."""
    functions = roles.remembered("locals kept", lambda: list(_keeping_locals(roles)))
    kept = [f for f in functions if related(roles, roles.index(f).class_of(f), node)]
    return [b for f in kept for b in roles.index(f).scopes[f].bindings.get(attr, ())]


def _keeping_locals(roles: Roles) -> Iterator[cst.FunctionDef]:
    for call in roles.program.calls.get("update", ()):
        base, given = receiver(call), call.args[0].value if len(call.args) == 1 else None
        own = isinstance(base, cst.Attribute) and base.attr.value == "__dict__" and is_self(roles, base.value)
        if own and isinstance(given, cst.Call) and roles.path(given.func) == "builtins.locals":
            function = roles.index(call).function_of(call)
            if function is not None:
                yield function


def is_self(roles: Roles, node: cst.CSTNode) -> bool:
    """Whether a name is the first parameter of the method it stands in, be it in a function of the method."""
    if not isinstance(node, cst.Name):
        return False
    owner = roles.index(node).scope_of(node).owner(node.value)
    if owner is None or owner.parent is None or not isinstance(owner.parent.node, cst.ClassDef):
        return False
    if not isinstance(owner.node, cst.FunctionDef) or is_static(owner.node):
        return False
    params = parameters(owner.node)
    return bool(params) and params[0].name.value == node.value


def is_static(function: cst.FunctionDef) -> bool:
    """Whether a method is handed no instance."""
    return any(getattr(d.decorator, "value", "") == "staticmethod" for d in function.decorators)


def _from_keywords(roles: Roles, node: cst.ClassDef, attr: str) -> Facts:
    found: set[Fact] = set()
    for call in roles.program.calls.get(node.name.value, ()):
        for arg in call.args:
            if arg.keyword is not None and arg.keyword.value == attr:
                found |= roles.facts(arg.value)
    return frozenset(found)


def assigned_elsewhere(roles: Roles, node: cst.Attribute) -> Facts:
    """Assignments to an attribute of the same expression: ``args.device = ...``, ``cfg.model = ...``."""
    found: set[Fact] = set()
    for binding in roles.program.attributes.get(node.attr.value, ()):
        target = binding.node
        if target is node or not isinstance(target, cst.Attribute):
            continue
        if _same_object(roles, target.value, node.value):
            with roles.guarded(binding.node) as free:
                found |= ev.bound(roles, binding) if free else NOTHING
    return frozenset(found) | _number_of_process(roles, node)


def _number_of_process(roles: Roles, node: cst.Attribute) -> Facts:
    """A rank or a size that is put into an object, wherever that is handed: ``cfg.rank = rank``."""
    every = roles.program.attributes.get(node.attr.value, ()) if roles.program.replicated else ()
    targets = [(b, b.node) for b in every if isinstance(b.node, cst.Attribute) and b.node is not node]
    others = [(b, t) for b, t in targets if not same(t.value, node.value)]
    mine = _traced(roles, node.value) if others else NOTHING
    found: set[Fact] = set()
    for binding, target in others if mine else ():
        if mine & _traced(roles, target.value):
            with roles.guarded(binding.node) as free:
                found |= ev.bound(roles, binding) if free else NOTHING
    return frozenset(f for f in found if f.detail in ranks.PLACES | ranks.SIZES)


def _traced(roles: Roles, node: cst.BaseExpression) -> Facts:
    """Where an object comes from: its class, or the call that gave it."""
    kinds = (Kind.ARGUMENTS, Kind.INSTANCE, Kind.UNKNOWN)
    return frozenset(f for f in roles.facts(node) if f.kind in kinds and f.node is not None)


def _same_object(roles: Roles, left: cst.BaseExpression, right: cst.BaseExpression) -> bool:
    if not same(left, right):
        return False
    if not isinstance(left, cst.Name):
        return True
    scopes = [roles.index(n).scope_of(n).owner(n.value) for n in (left, right) if isinstance(n, cst.Name)]
    if len({id(s) for s in scopes}) == 1:
        return True
    return bool(known(of_kind(roles.facts(left), Kind.ARGUMENTS)))
