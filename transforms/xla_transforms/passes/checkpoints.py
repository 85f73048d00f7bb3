"""Checkpoints: ``torch.save`` becomes ``xm.save`` where it saves tensors.

``xm.save`` writes CPU tensors, which every torch reads; the master's, where replicas share a file.
Source: pytorch/xla v2.9.0, ``torch_xla/core/xla_model.py``, ``save``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles import Kind
from xla_transforms.roles.classes import role_of
from xla_transforms.saves import Saved, holds_tuple, saved_by
from xla_transforms.statements import bare, live_calls, migrating
from xla_transforms.tree import method, receiver, value_of, walk

SAVE = Rule(
    "XLA801",
    "save",
    "Tensors are saved through xm.save.",
    "It brings them to the CPU first, so that the file loads anywhere (pytorch/xla v2.9.0, xla_model.save).",
)
WHOLE = Rule(
    "XLA803",
    "whole-module-saved",
    "A whole module is saved; its parameters are written as XLA tensors.",
    "xm.save does not reach into modules: such a file loads only where torch_xla is installed.",
    Severity.WARNING,
    Safety.DISPLAY,
)
FORMAT = Rule(
    "XLA804",
    "save-left",
    "A save is left that pickles, has options which xm.save does not take, or is handed on as a function.",
    "Its file holds XLA tensors: it loads only where torch_xla is installed, with map_location='cpu'.",
    Severity.WARNING,
    Safety.DISPLAY,
)
TUPLES = Rule(
    "XLA806",
    "saved-tuples",
    "A tuple that is saved comes back as a list.",
    "xm.save rebuilds what it brings to the CPU: tuples become lists, ordered dictionaries plain ones.",
    safety=Safety.DISPLAY,
)
WAITS = Rule(
    "XLA814",
    "save-waits",
    "A save that one replica alone reaches is left where xm.save waits for all of them.",
    "Up to torch_xla 2.0 xm.save ends with a rendezvous of all replicas: under a guard the one that saves "
    "waits for ever (pytorch/xla v1.13.0, xla_model.save).",
    Severity.ERROR,
    Safety.DISPLAY,
)
_PICKLES = frozenset({"cloudpickle.dump", "dill.dump", "joblib.dump", "pickle.dump", "pickle.dumps"})
RULES = (SAVE, WHOLE, FORMAT, TUPLES, WAITS)


def run(context: Context) -> None:
    if not migrating(context):
        return
    for call, path in live_calls(context):
        if path == "torch.save":
            _save(context, call)
        elif path in _PICKLES and _of_device(context, call):
            advice = "write it by xm.save, or bring its tensors to the CPU first: tensor.cpu()"
            context.plan.report(FORMAT, call, "it writes tensors of the device as they are", advice)
    for node in (*context.index.attributed("save"), *context.index.named("save")):
        if _handed_on(context, node):
            advice = "hand on a function that calls xm.save, and let every replica reach it"
            message = "torch.save is handed on: it saves tensors of the device"
            context.plan.report(FORMAT, node, message, advice)


def _of_device(context: Context, call: cst.Call) -> bool:
    """Whether what is pickled holds a model, or the state of one or of its optimizer."""
    value = call.args[0].value if call.args else None
    given = [b.value for b in context.roles.bindings(value)] if isinstance(value, cst.Name) else []
    parts = [n for v in (value, *given) if v is not None for n in walk(v)]
    if any(method(n) in ("cpu", "numpy") for n in parts):
        return False
    states = (receiver(n) for n in parts if method(n) == "state_dict")
    held = any(context.roles.kinds(base) & {Kind.MODEL, Kind.OPTIMIZER} for base in states)
    return held or context.roles.is_a(value, Kind.MODEL)


def _handed_on(context: Context, node: cst.BaseExpression) -> bool:
    """Whether ``torch.save`` is named and not called there."""
    parent = context.index.parent(node)
    called = isinstance(parent, cst.Call) and parent.func is node
    given = isinstance(parent, (cst.Arg, cst.BaseExpression, cst.DictElement)) and not called
    return given and not isinstance(parent, cst.Attribute) and context.roles.path(node) == "torch.save"


def _save(context: Context, call: cst.Call) -> None:
    if _loads_data(context, call):
        return
    saved = saved_by(context.roles, call)
    if saved is Saved.MODULE:
        advice = "save model.state_dict() instead, and load it into a new model"
        context.plan.report(WHOLE, call, "a module's parameters are saved as they are", advice)
    elif saved is Saved.OPTIONS:
        advice = "leave the options out and write xm.save"
        context.plan.report(FORMAT, call, "xm.save does not take these options", advice)
    elif saved is Saved.TENSORS or (saved is Saved.PLAIN and _written_by_all(context)):
        if context.target.save_waits and _reached_alone(context, call):
            advice = "let every replica reach it, and write xm.save"
            context.plan.report(WAITS, call, "one replica alone reaches this save", advice)
        else:
            _write(context, call)


def _loads_data(context: Context, call: cst.Call) -> bool:
    """Whether a data set saves what it prepared: on the host, in the processes of a loader, which have no
    device."""
    owner = context.index.class_of(call)
    return isinstance(owner, cst.ClassDef) and role_of(context.roles, owner) is Kind.DATASET


def _reached_alone(context: Context, call: cst.Call) -> bool:
    kept = context.distributed and context.replicas.alone.kept(call)
    return kept or context.frameworks.alone(call)


def _written_by_all(context: Context) -> bool:
    """Whether one process wrote the file and now every replica would: xm.save lets the master alone write."""
    return context.distributed and not context.replicas.native


def _own(context: Context, call: cst.Call, place: cst.BaseExpression) -> bool:
    """Whether each replica saves to a file of its own; what the master alone reaches is the master's."""
    replicas = context.replicas
    return context.distributed and replicas.own_files.named(place) and not replicas.alone.reached(call)


def _write(context: Context, call: cst.Call) -> None:
    value, place = value_of(call, "obj", 0), value_of(call, "f", 1)
    if value is not None and holds_tuple(context.roles, value):
        advice = "compare and restore them as lists"
        context.plan.report(TUPLES, call, "its tuples are lists in the file", advice)
    change = context.plan.change(SAVE, call, "saves CPU tensors that load anywhere")
    save = change.spell(context.target.save)
    if place is not None and value is not None and _own(context, call, place):
        change.replace(call, f"{save}({{0}}, {{1}}, master_only=False)", value, place)
    elif value is not None and place is not None and any(arg.keyword for arg in call.args):
        change.replace(call, f"{save}({{0}}, {{1}})", value, place)
    else:
        change.replace(call.func, save)
    line = context.index.statement_of(call)
    if line is not None and bare(context, call) is not None and _may_be_loaded(context, call):
        tag = f'"{context.index.function_name(call)}_written"'
        change.after(line, change.spell(context.target.rendezvous).replace("{0}", tag))


def _may_be_loaded(context: Context, call: cst.Call) -> bool:
    """Whether replicas may load what the master has not written to its end: one process did both in turn."""
    loads = (c for c in context.program.calls.get("load", ()) if context.roles.path(c.func) == "torch.load")
    waits = context.target.save_waits or context.replicas.starts.before(call)
    return _written_by_all(context) and not waits and any(True for _ in loads)
