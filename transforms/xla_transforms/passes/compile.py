"""torch.compile: the lazy trace is compiled by XLA itself, so that Dynamo and Inductor go.

Inductor fails on XLA tensors (``KeyError: 'xla'``, torch 2.9); the backend ``openxla`` works, yet in training
costs more compilations and executions than the lazy trace.
Source: pytorch/xla v2.9.0, ``docs/source/perf/dynamo.md``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles import Kind, classes
from xla_transforms.statements import bare, live_calls, migrating, sole_target
from xla_transforms.tree import method, receiver, same, string_value, value_of

COMPILE = Rule(
    "XLA251",
    "torch-compile",
    "torch.compile goes away: XLA compiles the lazily traced step by itself.",
    "Inductor fails on XLA tensors with KeyError: 'xla' (pytorch/xla v2.9.0, docs/source/perf/dynamo.md).",
)
COMPILE_LEFT = Rule(
    "XLA252",
    "torch-compile-left",
    "torch.compile is used in a way that is not understood and is left.",
    "Inductor fails on XLA tensors.",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (COMPILE, COMPILE_LEFT)

_PATHS = frozenset({"torch.compile", "torch._dynamo.optimize"})
_XLA_BACKENDS = ("openxla", "openxla_eval")
_MESSAGE = "XLA compiles the traced step by itself"


def run(context: Context) -> None:
    if not migrating(context):
        return
    for call, path in live_calls(context):
        if path in _PATHS and string_value(value_of(call, "backend")) not in _XLA_BACKENDS:
            _call(context, call)
        elif path == "torch.compiler.cudagraph_mark_step_begin" or _compiles_itself(context, call):
            statement = bare(context, call)
            if statement is not None:
                context.plan.change(COMPILE, call, _MESSAGE).remove(statement)
    if context.program.mentions("compile", "_dynamo"):
        for node in context.index.all(cst.Attribute, cst.Name):
            if context.roles.path(node) in _PATHS and context.plan.free(node):
                _reference(context, node)


def _compiles_itself(context: Context, call: cst.Call) -> bool:
    """``model.compile()`` of nn.Module, not of a class that has a method of that name itself."""
    base = receiver(call)
    if method(call) != "compile" or base is None or not context.roles.is_a(base, Kind.MODEL):
        return False
    owners = context.roles.origins(base, Kind.MODEL)
    own = [o for o in owners if isinstance(o, cst.ClassDef)]
    return not any(classes.find_method(context.roles, o, "compile") for o in own)


def _call(context: Context, call: cst.Call) -> None:
    outer = context.index.parent(call)
    model = value_of(call, "model", 0)
    if isinstance(outer, cst.Decorator):
        _undecorate(context, outer)
    elif isinstance(outer, cst.Call) and outer.func is call and len(outer.args) == 1:
        _uncompile(context, outer, outer.args[0].value)
    elif model is not None and not call.args[0].star:
        _uncompile(context, call, model)


def _uncompile(context: Context, node: cst.BaseExpression, model: cst.BaseExpression) -> None:
    """The model itself in the place of what compiles it; ``net = net`` and the like go altogether."""
    outer = context.index.parent(node)
    if isinstance(outer, cst.IfExp) and outer.test is not node:
        other = outer.orelse if outer.body is node else outer.body
        if same(other, model):
            node, outer = outer, context.index.parent(outer)
    change = context.plan.change(COMPILE, node, _MESSAGE)
    target = sole_target(outer)
    needless = same(target, model) and _bound_before(context, target)
    if outer is not None and (isinstance(outer, cst.Expr) or needless):
        change.remove(outer)
    else:
        change.replace(node, "{0}", model)
    _inner_modules(context)


def _bound_before(context: Context, target: cst.BaseExpression | None) -> bool:
    """Whether a name has a value without the assignment that goes."""
    if not isinstance(target, cst.Name):
        return True
    owner = context.index.scope_of(target).owner(target.value)
    return owner is not None and len(owner.bindings[target.value]) > 1


def _inner_modules(context: Context) -> None:
    """``model._orig_mod`` is the model itself again."""
    for node in context.index.all(cst.Attribute):
        if isinstance(node, cst.Attribute) and node.attr.value == "_orig_mod":
            parent = context.index.parent(node)
            if context.plan.free(node) and not isinstance(parent, cst.AssignTarget):
                change = context.plan.change(COMPILE, node, "the model is no longer wrapped")
                change.replace(node, "{0}", node.value)


def _undecorate(context: Context, decorator: cst.Decorator) -> None:
    source = context.index.source
    start, end = source.offsets(decorator)
    change = context.plan.change(COMPILE, decorator, _MESSAGE)
    change.cut(source.line_start(start), source.line_end(end))


def _reference(context: Context, node: cst.CSTNode) -> None:
    outer = context.index.parent(node)
    if (isinstance(outer, cst.Call) and outer.func is node) or isinstance(outer, cst.ImportAlias):
        return
    if context.roles.dead(node):
        return
    if isinstance(outer, cst.Decorator):
        _undecorate(context, outer)
    elif not isinstance(outer, (cst.Attribute, cst.NameItem, cst.AssignTarget)):
        advice = "leave it out: XLA compiles the traced step by itself"
        context.plan.report(COMPILE_LEFT, node, "torch.compile is handed on", advice)
