"""Checkpoints: ``torch.save`` becomes ``xm.save`` where it saves tensors; loading maps to the CPU.

``xm.save`` writes CPU tensors, which every torch reads; ``load_state_dict`` brings them to the device.
``map_location`` cannot be an XLA device ("don't know how to restore data location").
Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``save``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Severity
from xla_transforms.placing import device_at
from xla_transforms.roles import Kind
from xla_transforms.statements import live_calls, migrating, path_of, sole_target
from xla_transforms.tree import argument, dotted, has_star, method, receiver, value_of

SAVE = Rule(
    "XLA801",
    "save",
    "Tensors are saved through xm.save.",
    "It brings them to the CPU first, so that the file loads anywhere (pytorch/xla v2.9.0, xla_model.save).",
)
LOAD = Rule(
    "XLA802",
    "load",
    "Checkpoints are loaded to the CPU.",
    "torch cannot restore tensors to an XLA device, and those of CUDA raise without CUDA.",
)
WHOLE = Rule(
    "XLA803",
    "whole-module-saved",
    "A whole module is saved; its parameters are written as XLA tensors.",
    "xm.save does not reach into modules: such a file loads only where torch_xla is installed.",
    Severity.WARNING,
)
FORMAT = Rule(
    "XLA804",
    "save-left",
    "A save with options that xm.save does not take is left.",
    "Its file holds XLA tensors: it loads only where torch_xla is installed, with map_location='cpu'.",
    Severity.WARNING,
)
ON_CPU = Rule(
    "XLA805",
    "loaded-on-cpu",
    "What is loaded stays on the CPU now.",
    "Where it is not given to load_state_dict, it has to be moved to the device.",
)
RULES = (SAVE, LOAD, WHOLE, FORMAT, ON_CPU)

_LOADS = {
    "torch.load": 1,
    "torch.hub.load_state_dict_from_url": None,
    "torch.utils.model_zoo.load_url": None,
}
_MODULE_USES = frozenset({"eval", "train", "parameters", "named_parameters", "forward", "state_dict", "half"})
_HOLDS = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOLEAN, Kind.ARGUMENTS, Kind.DATASET, Kind.NONE})


def run(context: Context) -> None:
    if not migrating(context):
        return
    for call, path in live_calls(context):
        if path == "torch.save":
            _save(context, call)
        elif path in _LOADS:
            _load(context, call, path)
        elif path == "safetensors.torch.load_file":
            device = argument(call, "device", 1)
            if device is not None and context.roles.places(device.value) != {"cpu"}:
                _to_cpu(context, device)


def _save(context: Context, call: cst.Call) -> None:
    value, place = value_of(call, "obj", 0), value_of(call, "f", 1)
    if value is None or place is None or has_star(call):
        return
    if _is_model(context, value) or any(_is_model(context, entry) for entry in _entries(context, value)):
        advice = "save model.state_dict() instead, and load it into a new model"
        context.plan.report(WHOLE, call, "a module's parameters are saved as they are", advice)
    elif not _without_tensors(context, value):
        if len(call.args) > 2:
            advice = "leave the options out and write xm.save"
            context.plan.report(FORMAT, call, "xm.save does not take these options", advice)
            return
        change = context.plan.change(SAVE, call, "saves CPU tensors that load anywhere")
        save = change.spell(context.target.save)
        if any(arg.keyword for arg in call.args):
            change.replace(call, f"{save}({{0}}, {{1}})", value, place)
        else:
            change.replace(call.func, save)


def _entries(context: Context, value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The values that a dictionary, a list or a tuple is seen to hold."""
    found: list[cst.BaseExpression] = []
    for fact in context.roles.facts(value):
        if isinstance(fact.node, (cst.Dict, cst.List, cst.Tuple)):
            found += [element.value for element in fact.node.elements]
        elif fact.kind is Kind.MAPPING and isinstance(fact.node, cst.Call):
            found += [arg.value for arg in fact.node.args]
    return found


def _is_model(context: Context, value: cst.BaseExpression) -> bool:
    """Whether a value is a module, be it one that was loaded whole."""
    kinds = context.roles.kinds(value)
    return Kind.MODEL in kinds and kinds <= {Kind.MODEL, Kind.STATE}


def _without_tensors(context: Context, value: cst.BaseExpression) -> bool:
    """Whether all that is saved is known to hold no tensor of the device."""
    facts = context.roles.facts(value)
    if facts and all(f.kind is Kind.TENSOR and f.detail == "host" for f in facts):
        return True
    kinds = {f.kind for f in facts}
    if kinds and kinds <= _HOLDS:
        return True
    entries = _entries(context, value)
    literal = isinstance(value, (cst.List, cst.Tuple, cst.Dict)) and bool(entries)
    return literal and all(_without_tensors(context, entry) for entry in entries)


def _load(context: Context, call: cst.Call, path: str) -> None:
    place = argument(call, "map_location", _LOADS[path])
    if has_star(call) or (place is None and path != "torch.load"):
        return
    if place is None:
        message = "the file may name CUDA; its tensors come to the CPU"
        change = context.plan.change(LOAD, call, message)
        change.wrap(call.args[-1], '{0}, map_location="cpu"')
    elif _is_cpu(context, place.value):
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


def _to_cpu(context: Context, place: cst.Arg) -> None:
    change = context.plan.change(LOAD, place, "torch restores to the CPU, load_state_dict moves it")
    change.replace(place, f'{place.keyword.value}="cpu"' if place.keyword else '"cpu"')


def _follow(context: Context, call: cst.Call) -> None:
    """A whole module that is loaded is moved to the device; other things are followed up by the reader."""
    outer = context.index.parent(call)
    target = sole_target(outer)
    if isinstance(outer, (cst.Attribute, cst.Arg, cst.Subscript)) or not isinstance(target, cst.Name):
        return
    scope = context.index.scope_of(target).owner(target.value)
    uses = context.index.uses.get((scope, target.value), set())
    if uses & _MODULE_USES and "load_state_dict" not in uses:
        if not _moved_below(context, call, target.value):
            change = context.plan.change(LOAD, call, "the module that is loaded moves to the device")
            change.wrap(call, "{0}.to({1})", device_at(context, call, change))
    elif not uses & {"to", "cuda", "items", "keys", "get", "cpu"} and not _is_state(context, target):
        advice = "move what the device computes with"
        context.plan.report(ON_CPU, call, f"{target.value} is on the CPU", advice)


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


def _is_state(context: Context, target: cst.Name) -> bool:
    """Whether a name that was loaded is taken apart or given to ``load_state_dict``."""
    scope = context.index.scope_of(target).owner(target.value)
    for name in context.index.named(target.value):
        parent = context.index.parent(name)
        if context.index.scope_of(name).owner(name.value) is not scope:
            continue
        if isinstance(parent, (cst.Subscript, cst.ComparisonTarget)):
            return True
        user = context.index.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(user, cst.Call) and not _computes(context, user):
            return True
    return False


def _computes(context: Context, call: cst.Call) -> bool:
    """Whether a call computes with its arguments: a model, a function of torch."""
    return context.roles.may_be(call.func, Kind.MODEL) or path_of(context, call.func).startswith("torch.")
