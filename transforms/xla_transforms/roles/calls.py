"""Calls: what they give back, who calls a function, what arrives in its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.roles import (
    by_value,
    classes,
    declared,
    generators,
    handing,
    options,
    ranks,
    readers,
    structure,
)
from xla_transforms.roles.catalog import (
    BUILTIN_NUMBERS,
    DATA_PARALLEL,
    DISTRIBUTED_DATA_PARALLEL,
    FULLY_SHARDED,
    MODEL_METHODS_SAME,
    TENSOR_METHODS,
    result_of,
)
from xla_transforms.roles.facts import NOTHING, UNKNOWN, Fact, Facts, Kind, fact, of_kind, says
from xla_transforms.roles.types import cast_to
from xla_transforms.scopes import parameters
from xla_transforms.tree import argument, method, receiver, string_value, value_of

if TYPE_CHECKING:
    from xla_transforms.roles import Roles


# What gives back what it is given, or a wrapper that stands for it.
_AS_ITS_ARGUMENT = frozenset(
    {
        "copy.deepcopy", *DATA_PARALLEL, *DISTRIBUTED_DATA_PARALLEL, *FULLY_SHARDED,
        "horovod.torch.DistributedOptimizer",
        "apex.contrib.optimizers.FP16_Optimizer", "apex.fp16_utils.FP16_Optimizer",
    }
)  # fmt: skip

# What names the device in use, be it as a device or by its number.
_CURRENT_DEVICE = frozenset(
    {
        "torch.accelerator.current_accelerator", "torch.accelerator.current_device_index",
        "torch.accelerator.current_device_idx", "torch.cuda.current_device",
    }
)  # fmt: skip


def call(roles: Roles, node: cst.Call) -> Facts:
    """What a call gives back."""
    found: set[Fact] = set()
    for item in roles.facts(node.func):
        if item.kind is Kind.NAME:
            found |= _named(roles, node, item.detail)
        elif item.kind is Kind.CLASS and item.node is not None:
            found |= classes.instance(roles, item.node)
        elif item.kind is Kind.FUNCTION and item.node is not None:
            found |= _run(roles, node, item.node)
        elif item.kind is Kind.MODEL:
            found |= _forward(roles, item)
    if not says(found):
        base = receiver(node)
        for item in roles.facts(base) if base is not None else NOTHING:
            found |= _method(roles, node, item)
    return frozenset(found) or UNKNOWN


def _run(roles: Roles, node: cst.Call, function: cst.CSTNode) -> Facts:
    """What a call of a function of the program gives back."""
    if generators.passed_on(roles, node) is not None:
        return fact(Kind.ITERATOR, "", node)
    return readers.of_call(roles, node, function) or returns(roles, function)


def _forward(roles: Roles, item: Fact) -> Facts:
    """The output of a model: tensors on the device; a tuple or dict where its ``forward`` shows one."""
    if isinstance(item.node, cst.ClassDef):
        function = classes.find_method(roles, item.node, "forward")
        if function is not None:
            shapes = [f for f in returns(roles, function) if f.kind in (Kind.SEQUENCE, Kind.MAPPING)]
            if shapes:
                return frozenset(shapes)
    return fact(Kind.TENSOR, "device")


def _named(roles: Roles, node: cst.Call, path: str) -> Facts:
    if path.startswith("builtins."):
        return _builtin(roles, node, path.removeprefix("builtins."))
    if structure.is_wrapper(roles, node):
        return fact(Kind.ITERATOR, path, node)
    if ranked := ranks.of_call(roles, node, path):
        return ranked
    kind, detail = result_of(path)
    if kind is Kind.DEVICE and not detail:
        return _device(roles, node)
    if kind is Kind.TENSOR and path.startswith("torch."):
        return fact(Kind.TENSOR, _place(roles, node, detail))
    if path == "torch.compile" and node.args:
        return roles.facts(node.args[0].value)
    if path in _AS_ITS_ARGUMENT and node.args:
        return roles.facts(node.args[0].value)
    if path == "apex.amp.initialize":
        found = initialized(node)
        together = fact(Kind.SEQUENCE, "", cst.Tuple([cst.Element(value) for value in found]))
        return roles.facts(found[0]) if len(found) == 1 else together
    if path in _CURRENT_DEVICE:
        return fact(Kind.DEVICE, "cuda")
    if path == "dataclasses.field":
        return _field(roles, node)
    if path == "torch.utils.data.random_split":
        return fact(Kind.DATASET, path)
    if kind is Kind.UNKNOWN and _makes_optimizer(roles, node):
        return fact(Kind.OPTIMIZER, path, node)
    return fact(kind, detail, node)


def _field(roles: Roles, node: cst.Call) -> Facts:
    """What a field of a data class is where nothing is given: ``field(default_factory=lambda: ...)``."""
    made = value_of(node, "default_factory")
    default = made.body if isinstance(made, cst.Lambda) else value_of(node, "default")
    return roles.facts(default) if default is not None else UNKNOWN


def _makes_optimizer(roles: Roles, node: cst.Call) -> bool:
    """Whether something from outside is given parameters and a learning rate, which makes an optimizer."""
    params = value_of(node, "params", 0)
    return argument(node, "lr") is not None and roles.is_a(params, Kind.PARAMETERS)


def initialized(node: cst.Call) -> list[cst.BaseExpression]:
    """What apex's ``initialize`` is given and gives back: the models, and the optimizers if there are any."""
    given = [value_of(node, "models", 0), value_of(node, "optimizers", 1)]
    return [v for v in given if v is not None and getattr(v, "value", "") != "None"]


def _builtin(roles: Roles, node: cst.Call, name: str) -> Facts:
    if name in BUILTIN_NUMBERS:
        return (ranks.of_int(roles, node) if name == "int" else NOTHING) or fact(Kind.NUMBER)
    if name in ("str", "format", "repr"):
        inner = roles.places(node.args[0].value) - {"?"} if node.args else set()
        return fact(Kind.STRING, inner.pop() if len(inner) == 1 else "")
    if name in ("bool", "isinstance", "hasattr", "any", "all"):
        return fact(Kind.BOOLEAN)
    if name in ("sum", "max", "min", "abs", "pow") and node.args:
        inner_facts = [roles.facts(a.value) for a in node.args]
        elements = roles.element(node.args[0].value, ()) if len(node.args) == 1 else NOTHING
        return of_kind(frozenset().union(*inner_facts, elements), Kind.TENSOR) or fact(Kind.NUMBER)
    if name == "next" and node.args:
        return structure.iterated(roles, node.args[0].value, ()) or UNKNOWN
    if name == "dict":
        return fact(Kind.MAPPING, "", node)
    if name == "getattr" and len(node.args) >= 2:
        return by_value.attribute(roles, node)
    if structure.is_wrapper(roles, node):
        return fact(Kind.ITERATOR, name, node)
    return UNKNOWN


def _device(roles: Roles, node: cst.Call) -> Facts:
    argument_ = value_of(node, "type", 0) or value_of(node, "device", 0)
    if argument_ is None:
        return fact(Kind.DEVICE, "?")
    return frozenset(Fact(Kind.DEVICE, place, node) for place in roles.places(argument_) or {"?"})


def _place(roles: Roles, node: cst.Call, default: str) -> str:
    """Where a tensor made by ``torch.something(...)`` lives: as ``device=`` says, else as its inputs."""
    device = argument(node, "device")
    if device is not None:
        return _placed(roles, device.value)
    if default:
        return default
    inputs: set[str] = set()
    for arg in node.args:
        inputs |= {f.detail for f in of_kind(roles.facts(arg.value), Kind.TENSOR)}
        inputs |= {f.detail for f in of_kind(roles.element(arg.value, ()), Kind.TENSOR)}
    return next((p for p in ("device", "", "batch", "host") if p in inputs), "")


def _placed(roles: Roles, device: cst.BaseExpression) -> str:
    return "host" if roles.places(device) == {"cpu"} else "device"


def _method(roles: Roles, node: cst.Call, item: Fact) -> Facts:
    name = method(node)
    if item.kind is Kind.TENSOR:
        return _tensor_method(roles, node, item, name)
    if item.kind is Kind.MODEL:
        return _model_method(roles, item, name)
    if item.kind is Kind.PARSER and name in ("parse_args", "parse_known_args"):
        return fact(Kind.ARGUMENTS, "", node)
    if item.kind is Kind.PARSER and name.startswith("add_"):
        return frozenset({item})
    if item.kind is Kind.ARGUMENTS:
        return frozenset({item})
    if item.kind is Kind.STRING and name == "format":
        return fact(Kind.STRING, item.detail if item.detail.startswith("cuda") else "")
    if item.kind is Kind.SCALER and name == "scale" and node.args:
        return roles.facts(node.args[0].value)
    if item.kind in (Kind.OPTIMIZER, Kind.SCHEDULER) and name in ("state_dict",):
        return fact(Kind.STATE)
    if item.kind is Kind.NUMBER and item.detail == "host":
        return frozenset({item})
    if item.kind is Kind.STRING and name == "format":  # the text before the first hole tells the device
        known_part = (string_value(receiver(node)) or "").partition("{")[0]
        return fact(Kind.STRING, known_part if known_part.startswith("cuda") else "")
    if item.kind is Kind.MAPPING and name in ("get", "pop"):
        key = string_value(node.args[0].value) if node.args else None
        return structure.at(roles, frozenset({item}), (key if key is not None else "*",))
    return UNKNOWN


def _tensor_method(roles: Roles, node: cst.Call, item: Fact, name: str) -> Facts:
    if name == "to":
        target = value_of(node, "device", 0)
        if target is not None and {Kind.DEVICE, Kind.STRING, Kind.NUMBER} & roles.kinds(target):
            return fact(Kind.TENSOR, _placed(roles, target))
        if target is not None and roles.is_a(target, Kind.DTYPE):
            return frozenset({item})
        if target is not None and not roles.path(target).startswith("torch."):
            return fact(Kind.TENSOR, "device" if item.detail != "host" else "")
        return frozenset({item})
    if name == "type" and not node.args:
        return fact(Kind.STRING)
    cast = cast_to(roles, node)
    if cast is not None:
        return fact(Kind.TENSOR, "device" if cast[0] == "cuda" else "host")
    kind, detail = TENSOR_METHODS.get(name, (Kind.TENSOR, item.detail))
    return fact(kind, detail)


def _model_method(roles: Roles, item: Fact, name: str) -> Facts:
    if name in MODEL_METHODS_SAME:
        return frozenset({item})
    if name == "parameters":
        return fact(Kind.PARAMETERS, "", item.node)
    if name in ("named_parameters", "named_buffers"):
        return fact(Kind.PARAMETERS, "named", item.node)
    if name in ("state_dict",):
        return fact(Kind.STATE)
    if name in ("zero_grad", "load_state_dict", "modules", "children", "named_modules"):
        return UNKNOWN
    return fact(Kind.TENSOR, "device") if name in ("forward", "log_prob", "sample") else UNKNOWN


def returns(roles: Roles, function: cst.CSTNode) -> Facts:
    """What a function of the program gives back (for a generator: something that yields)."""
    if isinstance(function, cst.Lambda):
        return roles.facts(function.body)
    assert isinstance(function, cst.FunctionDef)
    found: set[Fact] = set()
    with roles.guarded(("returns", function)) as free:
        if not free:
            return NOTHING
        for node in roles.exits(function):
            if isinstance(node, cst.Return):
                found |= roles.facts(node.value) if node.value else fact(Kind.NONE)
            elif isinstance(node, cst.Yield) and isinstance(node.value, cst.BaseExpression):
                found.add(Fact(Kind.SEQUENCE, "yields", _yielded(roles, node.value)))
    if not found:
        return fact(Kind.NONE)
    return frozenset(found) if says(found) else declared.annotation(roles, function.returns)


def _yielded(roles: Roles, value: cst.BaseExpression) -> cst.CSTNode:
    """A list of what one ``yield`` gives, the same each time: facts are told apart by their nodes."""
    return roles.remembered(("yielded", id(value)), lambda: cst.List([cst.Element(value)]))


def callers(roles: Roles, function: cst.FunctionDef) -> list[tuple[cst.Call, int]]:
    """The calls of a function of the program, each with how many parameters ``self`` takes."""
    return roles.remembered(("callers", id(function)), lambda: _callers(roles, function))


def _callers(roles: Roles, function: cst.FunctionDef) -> list[tuple[cst.Call, int]]:
    name = function.name.value
    owner = roles.index(function).class_of(function)
    if name == "__call__" and owner is not None:
        users = classes.users(roles, owner, function)
        return [(call, 1) for c in users for call in handing.instance_calls(roles, c)]
    if name == "__init__" and owner is not None:
        return _constructing(roles, owner, function)
    found: list[tuple[cst.Call, int]] = []
    for candidate in roles.program.calls.get(name, ()):
        item = next((f for f in roles.facts(candidate.func) if f.node is function), None)
        if item is not None:
            found.append((candidate, 1 if item.detail == "bound" else 0))
    return found or handing.indirect_calls(roles, function)


def _constructing(
    roles: Roles, owner: cst.ClassDef, function: cst.FunctionDef
) -> list[tuple[cst.Call, int]]:
    """The calls that run a constructor: those of its class and of subclasses, by name or by value."""
    users = classes.users(roles, owner, function)
    found = {call: 1 for c in users for call in handing.class_calls(roles, c)}
    names = [owner.name.value, *(c.name.value for c in classes.subclasses(roles, owner)), "cls"]
    for name in dict.fromkeys(names):
        for call in roles.program.calls.get(name, ()):
            made = (f for f in roles.facts(call.func) if f.kind is Kind.CLASS)
            if any(name != "cls" or item.node is owner for item in made):
                found[call] = 1
    return list(found.items())


def sites(roles: Roles, function: cst.FunctionDef) -> list[tuple[cst.Call, int]]:
    """The calls of a function as in ``callers``; those of ``__call__`` are the calls of the object."""
    if function.name.value != "__call__":
        return callers(roles, function)
    owner = roles.index(function).class_of(function)
    every = (c for found in roles.program.calls.values() for c in found)
    return [(c, 1) for c in every if _calls_object(roles, c, owner)]


def _calls_object(roles: Roles, call: cst.Call, owner: cst.CSTNode | None) -> bool:
    return any(f.node is owner for f in of_kind(roles.facts(call.func), Kind.INSTANCE))


def parameter(roles: Roles, param: cst.Param, function: cst.CSTNode) -> Facts:
    """What arrives in a parameter: by ``self``, by annotation, by the arguments of all calls, by default."""
    if not isinstance(function, cst.FunctionDef):
        return UNKNOWN
    return roles.remembered(("arrives", id(param)), lambda: _parameter(roles, param, function))


def _parameter(roles: Roles, param: cst.Param, function: cst.FunctionDef) -> Facts:
    params = parameters(function)
    owner = _owner(roles, function)
    if owner is not None and params and params[0] is param:
        of_class = any(getattr(d.decorator, "value", "") == "classmethod" for d in function.decorators)
        return fact(Kind.CLASS, "", owner) if of_class else classes.instance(roles, owner)
    found: set[Fact] = set()
    with roles.guarded(("parameter", param)) as free:
        if free:
            found |= _arguments(roles, param, function, params)
    if param.default is not None:
        found |= roles.facts(param.default)
    annotated = declared.annotation(roles, param.annotation)
    if says(found):
        return frozenset(found - UNKNOWN) | annotated if annotated and found & UNKNOWN else frozenset(found)
    if annotated:
        return annotated
    in_model = owner is not None and classes.role_of(roles, owner) is Kind.MODEL
    if in_model and function.name.value == "forward":
        return fact(Kind.TENSOR, "device")
    return frozenset(found) or UNKNOWN


def _owner(roles: Roles, function: cst.FunctionDef) -> cst.ClassDef | None:
    """The class whose method a function is; not for static methods and functions inside methods."""
    index = roles.index(function)
    outers = (a for a in index.ancestors(function) if isinstance(a, (cst.FunctionDef, cst.ClassDef)))
    outer = next(outers, None)
    if not isinstance(outer, cst.ClassDef):
        return None
    return None if classes.is_static(function) else outer


def _arguments(
    roles: Roles, param: cst.Param, function: cst.FunctionDef, params: list[cst.Param]
) -> Facts:
    position = next((i for i, p in enumerate(params) if p is param), 0)
    if param is function.params.star_arg or param is function.params.star_kwarg:
        return frozenset().union(*(_rest(roles, s, param, position - t) for s, t in callers(roles, function)))
    found: set[Fact] = set()
    for site, taken in callers(roles, function):
        value = value_of(site, param.name.value, position - taken)
        if value is not None:
            found |= roles.facts(value)
        elif any(arg.star for arg in site.args):
            found |= _by_star(roles, site, param.name.value, position - taken)
    found |= handing.handed(roles, function, position, param.name.value)
    return frozenset(found) | ranks.of_parameter(roles, function, position)


def _rest(roles: Roles, site: cst.Call, param: cst.Param, position: int) -> Facts:
    """What ``*args`` and ``**kwargs`` hold of a call: its values from a position on, its keywords."""
    if param.star == "**":
        return fact(Kind.MAPPING, "", site)
    values = [cst.Element(arg.value) for arg in site.args if arg.keyword is None and not arg.star]
    if any(arg.star == "*" for arg in site.args):
        return UNKNOWN
    held = roles.remembered(("rest", id(site), position), lambda: cst.Tuple(values[position:]))
    return fact(Kind.SEQUENCE, "", held)


def _by_star(roles: Roles, site: cst.Call, name: str, position: int) -> Facts:
    """What arrives by ``f(*args)`` or ``f(**options)``, where it is seen what they hold."""
    before = next((i for i, arg in enumerate(site.args) if arg.star == "*"), None)
    found: set[Fact] = set()
    if before is not None and position >= before:
        found |= structure.at(roles, roles.facts(site.args[before].value), (position - before,))
    found |= options.value(roles, site, name)
    return frozenset(found) if says(found) else UNKNOWN


def option(roles: Roles, name: str) -> Facts:
    """What a command-line option is, by the ``add_argument`` that declares it."""
    found: set[Fact] = set()
    for add in roles.program.declared.get(name, ()):
        found |= _option_facts(roles, add, name)
    return frozenset(found)


def _option_facts(roles: Roles, add: cst.Call, name: str) -> Facts:
    action = string_value(value_of(add, "action")) or ""
    if action.startswith("store_"):
        return fact(Kind.BOOLEAN, name, add)
    kind = roles.path(value_of(add, "type")).removeprefix("builtins.")
    if kind in ("int", "float"):
        return fact(Kind.NUMBER, ranks.LOCAL_RANK if name == ranks.OPTION else "", add)
    default = value_of(add, "default")
    found = roles.facts(default) if default is not None else NOTHING
    return frozenset(found) | fact(Kind.OPTION, name, add)


def arriving_parameter(
    roles: Roles, function: cst.FunctionDef, call: cst.Call, arg: cst.Arg
) -> cst.Param | None:
    """The parameter of ``function`` in which an argument of ``call`` arrives."""
    params = parameters(function)
    if arg.star:
        return None
    if arg.keyword is not None:
        return next((p for p in params if p.name.value == arg.keyword.value), None)
    taken = next((t for site, t in callers(roles, function) if site is call), 0)
    position = next(i for i, a in enumerate(call.args) if a is arg) + taken
    return params[position] if position < len(params) else None
