"""Loading: ``torch.load`` maps to the CPU, from where ``load_state_dict`` brings tensors to the device.

``map_location`` cannot be an XLA device ("don't know how to restore data location", torch 2.9).
Source: pytorch v2.9, ``torch/serialization.py``; pytorch/xla v2.9.0, ``xla_model.py``, ``save``.
"""

from __future__ import annotations

from functools import partial

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.naming import Use, Uses, is_word
from xla_transforms.placing import device_at
from xla_transforms.restored import Variable, handing_on, kept, mentions
from xla_transforms.roles import Kind
from xla_transforms.roles.calls import callers
from xla_transforms.statements import has_call, live_calls, migrating, path_of, sole_target
from xla_transforms.tree import argument, dotted, has_star, method, receiver, value_of

LOAD = Rule(
    "XLA802",
    "load",
    "Checkpoints are loaded to the CPU.",
    "torch cannot restore tensors to an XLA device, and those of CUDA raise without CUDA.",
)
ON_CPU = Rule(
    "XLA805",
    "loaded-on-cpu",
    "What is loaded stays on the CPU now.",
    "Where it is not given to load_state_dict, it has to be moved to the device.",
    safety=Safety.DISPLAY,
)
RANDOM = Rule(
    "XLA807",
    "python-random-state",
    "Python's random state gets back the tuple that xm.save made a list.",
    "random.setstate takes its inner state as a tuple only (pytorch/xla v2.9.0, xla_model.save).",
)
RULES = (LOAD, ON_CPU, RANDOM)

_LOADS = {
    "torch.load": 1,
    "torch.hub.load_state_dict_from_url": None,
    "torch.utils.model_zoo.load_url": None,
}
_MOVED = "{{name: tensor.to(device) for name, tensor in {}.items()}}"
_MODULE_USES = frozenset({"eval", "train", "parameters", "named_parameters", "forward", "state_dict", "half"})


def run(context: Context) -> None:
    if not migrating(context):
        return
    saves = any(context.roles.path(c.func) == "torch.save" for c in context.program.calls.get("save", ()))
    for call, path in live_calls(context):
        if path in _LOADS:
            _load(context, call, path)
        elif path == "random.setstate" and saves:
            _restore_random(context, call)
        elif path == "safetensors.torch.load_file":
            device = argument(call, "device", 1)
            if device is not None and context.roles.places(device.value) != {"cpu"}:
                _to_cpu(context, device)
    for function in context.once(_loading):
        for site, _ in callers(context.roles, function):
            if context.roles.index(site) is context.index and context.plan.free(site):
                _follow(context, site)


def _loading(context: Context) -> list[cst.FunctionDef]:
    """The functions of the program that give back what was loaded to CUDA, and comes to the CPU now."""
    calls = [c for path in _LOADS for c in context.program.calls.get(path.rpartition(".")[2], ())]
    return handing_on(context.roles, filter(partial(_moves, context), calls))


def _moves(context: Context, call: cst.Call) -> bool:
    path = context.roles.path(call.func)
    if path not in _LOADS or has_star(call) or context.roles.dead(call):
        return False
    place = argument(call, "map_location", _LOADS[path])
    return path == "torch.load" if place is None else not _is_cpu(context, place.value)


def _restore_random(context: Context, call: cst.Call) -> None:
    """Python's random state needs its inner tuple, which is a list in a file of ``xm.save``."""
    state = value_of(call, "state", 0)
    if not isinstance(state, (cst.Name, cst.Attribute, cst.Subscript)) or has_call(state):
        return
    values = [b.value for b in context.roles.bindings(state)] if isinstance(state, cst.Name) else []
    calls = [value for value in values if isinstance(value, cst.Call)]
    if any(context.roles.path(made.func) == "random.getstate" for made in calls):
        return
    change = context.plan.change(RANDOM, call, "the state's tuple comes back from the file as a list")
    change.replace(state, "({0}[0], tuple({0}[1]), {0}[2])", state)


def _load(context: Context, call: cst.Call, path: str) -> None:
    place = argument(call, "map_location", _LOADS[path])
    if has_star(call) or (place is None and (path != "torch.load" or context.already_xla)):
        return
    if place is None:
        message = "the file may name CUDA; its tensors come to the CPU"
        change = context.plan.change(LOAD, call, message)
        change.wrap(call.args[-1], '{0}, map_location="cpu"')
    elif _is_cpu(context, place.value) or _becomes_cpu(context, place.value):
        return
    else:
        _to_cpu(context, place)
    _follow(context, call)


def _is_cpu(context: Context, place: cst.BaseExpression) -> bool:
    """``"cpu"``, ``torch.device("cpu")`` or ``lambda storage, loc: storage``."""
    if isinstance(place, cst.Lambda):
        first = place.params.params[0].name.value if place.params.params else ""
        return isinstance(place.body, cst.Name) and place.body.value == first
    return context.roles.places(place) == {"cpu"}


def _becomes_cpu(context: Context, place: cst.BaseExpression) -> bool:
    """Whether a variable serves for loading alone: the word that it holds is written as the CPU's."""
    values = [b.value for b in context.roles.bindings(place)] if isinstance(place, cst.Name) else []
    uses = Uses(context.roles)
    written = (
        isinstance(value, cst.BaseExpression) and context.plan.claims(value) and is_word(value)
        and uses.of(value) == {Use.LOADED}
        for value in values
    )  # fmt: skip
    return bool(values) and all(written)


def _to_cpu(context: Context, place: cst.Arg) -> None:
    change = context.plan.change(LOAD, place, "torch restores to the CPU, load_state_dict moves it")
    change.replace(place, f'{place.keyword.value}="cpu"' if place.keyword else '"cpu"')


def _follow(context: Context, call: cst.Call) -> None:
    """A whole module that is loaded is moved to the device; other things are followed up by the reader."""
    outer = context.index.parent(call)
    target = sole_target(outer)
    if isinstance(outer, (cst.Attribute, cst.Arg, cst.Subscript)):
        return
    if not isinstance(target, (cst.Name, cst.Attribute)):
        return
    name = context.index.source.code(target)
    around = [context.index.parent(n) for n in mentions(context.roles, target)]
    uses = {n.attr.value for n in around if isinstance(n, cst.Attribute)}
    if uses & _MODULE_USES and "load_state_dict" not in uses:
        if not _moved_below(context, call, name):
            change = context.plan.change(LOAD, call, "the module that is loaded moves to the device")
            change.wrap(call, "{0}.to({1})", device_at(context, call, change))
    elif not uses & {"to", "cuda", "items", "keys", "get", "cpu"} and not _is_state(context, target):
        advice = "move what the device computes with"
        context.plan.report(ON_CPU, call, f"{name} is on the CPU", advice)
    _keepers(context, target)


def _keepers(context: Context, loaded: Variable) -> None:
    """Parts of a checkpoint that are kept as they come, and were tensors of the device."""
    for part, holder in kept(context.roles, loaded):
        advice = "move it: " + _MOVED.format(context.index.source.code(part))
        context.plan.report(ON_CPU, part, f"{holder} is on the CPU", advice, severity=Severity.WARNING)


def _moved_below(context: Context, call: cst.Call, name: str) -> bool:
    """Whether the block in which a module is loaded moves it to the device further down."""
    line = context.index.statement_of(call)
    block = context.index.parent(line) if line is not None else None
    moves = [c for c in context.index.all(cst.Call) if method(c) in ("to", "cuda")]
    return any(
        dotted(receiver(move)) == name
        and (beside := context.index.statement_of(move)) is not None
        and context.index.parent(beside) is block
        for move in moves
    )


def _is_state(context: Context, target: Variable) -> bool:
    """Whether what was loaded is taken apart, given back or given to ``load_state_dict``."""
    for name in mentions(context.roles, target):
        parent = context.index.parent(name)
        if isinstance(parent, (cst.Subscript, cst.ComparisonTarget, cst.Return)):
            return True
        user = context.index.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(user, cst.Call) and not _computes(context, user):
            return True
    return False


def _computes(context: Context, call: cst.Call) -> bool:
    """Whether a call computes with its arguments: a model, a function of torch."""
    return context.roles.may_be(call.func, Kind.MODEL) or path_of(context, call.func).startswith("torch.")
