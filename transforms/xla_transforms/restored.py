"""What a loaded checkpoint gives the program to keep: tables of tensors that the device computes with.

``load_state_dict`` of a module or an optimizer copies to where its own tensors are. An average of weights
that is bound as it comes, or that an object of the program keeps, stays where it was loaded to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from xla_transforms.replicas.reach import called
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.classes import is_self
from xla_transforms.scopes import parameters
from xla_transforms.statements import sole_target
from xla_transforms.tree import method, receiver, same, string_value, value_of, walk

Variable = cst.Name | cst.Attribute


def mentions(roles: Roles, variable: Variable) -> Iterator[Variable]:
    """The other places that name a variable, or the same attribute of an object."""
    index = roles.index(variable)
    if isinstance(variable, cst.Name):
        scope = index.scope_of(variable).owner(variable.value)
        yield from (n for n in index.named_of(scope, variable.value) if n is not variable)
        return
    owner = index.class_of(variable) if is_self(roles, variable.value) else None
    for other in index.attributed(variable.attr.value):
        if other is not variable and same(other.value, variable.value) and index.class_of(other) is owner:
            yield other


def handing_on(roles: Roles, calls: Iterable[cst.Call]) -> list[cst.FunctionDef]:
    """The functions that give back what one of some calls does, be it through others."""
    found: list[cst.FunctionDef] = []
    waiting = list(calls)
    while waiting:
        call = waiting.pop()
        function = roles.index(call).function_of(call)
        if function is not None and function not in found and _given_back(roles, call, function):
            found.append(function)
            waiting += [site for site, _ in callers(roles, function)]
    return found


def _given_back(roles: Roles, call: cst.Call, function: cst.FunctionDef) -> bool:
    index = roles.index(call)
    outer = index.parent(call)
    target = sole_target(outer)
    exits = [e.value for e in roles.exits(function) if isinstance(e, cst.Return)]
    if not isinstance(target, cst.Name):
        return call in exits
    around = (index.parent(n) for n in mentions(roles, target))
    moved = any(isinstance(n, cst.Attribute) and n.attr.value in ("to", "cuda") for n in around)
    return not moved and any(same(target, value) for value in exits)


def kept(roles: Roles, loaded: Variable) -> Iterator[tuple[cst.BaseExpression, str]]:
    """The parts of what a variable was loaded with that something keeps as they come, each with what does."""
    index = roles.index(loaded)
    for name in mentions(roles, loaded):
        outer = index.parent(name)
        part = outer if isinstance(outer, cst.Subscript) and outer.value is name else name
        user = index.parent(part)
        target = sole_target(user)
        if not isinstance(part, cst.Subscript) or target is None:
            pass
        elif _was_on_device(roles, part) or _takes_the_place(roles, target):
            yield part, index.source.code(target)
        if isinstance(user, cst.Arg) and isinstance(call := index.parent(user), cst.Call):
            yield from ((part, held) for held in _kept_by(roles, call, user))


def _was_on_device(roles: Roles, entry: cst.Subscript) -> bool:
    key = entry.slice[0].slice
    word = string_value(key.value) if isinstance(key, cst.Index) else None
    return word is not None and any(_of_device(roles, saved) for saved in _saved(roles, word))


def _takes_the_place(roles: Roles, target: cst.BaseExpression) -> bool:
    """Whether a variable has a table of tensors of the device before it gets what was loaded."""
    if not isinstance(target, cst.Name):
        return False
    scope = roles.index(target).scope_of(target).owner(target.value)
    values = [b.value for b in scope.bindings[target.value]] if scope is not None else []
    return any(isinstance(v, cst.BaseExpression) and _of_device(roles, v) for v in values)


def _saved(roles: Roles, key: str) -> Iterator[cst.BaseExpression]:
    """What the program's checkpoints have under a key."""
    calls = [c for c in roles.program.calls.get("save", ()) if roles.path(c.func) == "torch.save"]
    values = [value for c in calls if (value := value_of(c, "obj", 0)) is not None]
    for table in (o for value in values for o in roles.origins(value, Kind.MAPPING)):
        for item in table.elements if isinstance(table, cst.Dict) else ():
            if isinstance(item, cst.DictElement) and string_value(item.key) == key:
                yield item.value


def _kept_by(roles: Roles, call: cst.Call, given: cst.Arg) -> Iterator[str]:
    """The attributes with tensors of the device in which a method keeps an argument as it is."""
    for function in called(roles, call):
        owner = roles.index(function).class_of(function)
        name = _parameter(function, call, given)
        if not isinstance(owner, cst.ClassDef) or not name:
            continue
        for assign in walk(function.body, into_functions=False):
            target = sole_target(assign)
            if not isinstance(target, cst.Attribute) or not is_self(roles, target.value):
                continue
            value = getattr(assign, "value", None)
            taken = isinstance(value, cst.Name) and value.value == name
            if taken and _holds(roles, owner, target.attr.value):
                yield f"self.{target.attr.value} of {owner.name.value}"


def _parameter(function: cst.FunctionDef, call: cst.Call, given: cst.Arg) -> str:
    """The name of a method's parameter that takes an argument; empty where that is not seen."""
    if given.keyword is not None:
        return given.keyword.value
    position = next(i for i, arg in enumerate(call.args) if arg is given)
    names = [p.name.value for p in parameters(function)][1:]
    plain = not any(arg.star for arg in call.args[: position + 1])
    return names[position] if plain and position < len(names) else ""


def _holds(roles: Roles, owner: cst.ClassDef, name: str) -> bool:
    """Whether a class puts tensors of the device into an attribute: a table of them, or one by one."""
    for assign in walk(owner.body):
        target = sole_target(assign)
        value = getattr(assign, "value", None)
        into = target.value if isinstance(target, cst.Subscript) else target
        if not isinstance(into, cst.Attribute) or into.attr.value != name or value is None:
            continue
        if not is_self(roles, into.value):
            continue
        if _of_device(roles, value) or (into is not target and _is_tensor(roles, value)):
            return True
    return False


def _is_tensor(roles: Roles, value: cst.BaseExpression) -> bool:
    places = {f.detail for f in roles.facts(value) if f.kind is Kind.TENSOR}
    return bool(places) and "host" not in places and not _copied(value)


def _of_device(roles: Roles, saved: cst.BaseExpression) -> bool:
    """Whether a value is a table of tensors copied from a model's state, as an average of weights is."""
    for made in roles.origins(saved, Kind.MAPPING):
        source = made.for_in.iter if isinstance(made, cst.DictComp) else None
        base = receiver(source) if source is not None and method(source) == "items" else source
        of_model = base is not None and Kind.MODEL in roles.kinds(receiver(base))
        taken = of_model and method(base) in ("state_dict", "named_parameters")
        if taken and isinstance(made, cst.DictComp) and not _copied(made.value):
            return True
    return False


def _copied(value: cst.CSTNode) -> bool:
    """Whether a value is made on the host."""
    return any(method(node) in ("cpu", "numpy") for node in walk(value))
