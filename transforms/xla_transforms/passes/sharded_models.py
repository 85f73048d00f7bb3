"""FullyShardedDataParallel: the wrapper of torch_xla in its place, and whole parameters where they are saved.

The wrapper reduces and parts the gradients in the backward pass, as the native one does: so steps stay plain
(``xm.optimizer_step`` would mix the parts of all replicas), and ``clip_grad_norm_`` stays the model's own.
Its parameters can be put together by ``consolidate_sharded_state_dicts`` alone.
Source: pytorch/xla v2.9.0, ``docs/source/perf/fsdp.md`` and ``torch_xla/distributed/fsdp``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.fsdp import State, Wrap
from xla_transforms.fsdp.options import MODULE_POLICY, symbol
from xla_transforms.plan import Planned
from xla_transforms.roles.catalog import FULLY_SHARDED
from xla_transforms.statements import bare, leave_with

WRAPPER = Rule(
    "XLA155",
    "fully-sharded-model",
    "FullyShardedDataParallel becomes the one of torch_xla; optimizer steps stay plain.",
    "Each replica steps its own part of the parameters with gradients that are reduced already "
    "(pytorch/xla v2.9.0, torch_xla/distributed/fsdp).",
)
OTHERWISE = Rule(
    "XLA156",
    "sharding-otherwise",
    "An option of FullyShardedDataParallel has no counterpart; training goes on without it.",
    "torch_xla's wrapper keeps all parts on the device, and knows one type for all layers.",
    Severity.WARNING,
    Safety.DISPLAY,
)
STATE = Rule(
    "XLA157",
    "sharded-state",
    "The whole parameters of a sharded model are put together on the host of each replica.",
    "state_dict() gives a replica's own parts there; consolidate_sharded_state_dicts joins them "
    "(pytorch/xla v2.9.0, torch_xla/distributed/fsdp/state_dict_utils.py).",
)
RULES = (WRAPPER, OTHERWISE, STATE)

_PACKAGE = "torch_xla.distributed.fsdp"
_MESSAGE = "each replica keeps its part of the model"


def run(context: Context) -> None:
    sharded = context.sharded
    if not context.distributed or context.already_xla or not sharded.active:
        return
    context.plan.imports.twins[context.target.fully_sharded] = FULLY_SHARDED
    with context.plan.together("sharded"):
        for wrap in sharded.wraps:
            _policy(context, wrap)
            if _ours(context, wrap.call):
                _wrap(context, wrap)
        for node in sharded.types:
            if _ours(context, node):
                change = context.plan.change(WRAPPER, node, _MESSAGE)
                change.replace(node, change.use(context.target.fully_sharded))
        _settings(context)
        for state in sharded.states:
            if _ours(context, state.call):
                _whole(context, state)


def _ours(context: Context, node: cst.CSTNode) -> bool:
    return context.roles.index(node) is context.index


def _wrap(context: Context, wrap: Wrap) -> None:
    change = context.plan.change(WRAPPER, wrap.call, _MESSAGE)
    _options(context, change, wrap)
    for node, message, advice in wrap.told:
        severity = None if advice else Severity.INFO
        context.plan.report(OTHERWISE, node, message, advice, severity=severity)


def _options(context: Context, change: Planned, wrap: Wrap) -> None:
    """Write each option in the place of that it comes from."""
    kept = [wrap.module, *wrap.keywords.values()]
    gone = [arg for arg in wrap.call.args if arg.value not in kept and arg not in wrap.written.values()]
    change.drop(wrap.call.args, gone)
    change.replace(wrap.call.func, change.use(context.target.fully_sharded))
    offsets, source = context.index.source.offsets, context.index.source
    for arg in dict.fromkeys(wrap.written.values()):
        names = [name for name, origin in wrap.written.items() if origin is arg]
        value = wrap.keywords[names[0]]
        if isinstance(value, str):
            ahead = source.text[source.line_start(offsets(arg)[0]) : offsets(arg)[0]]
            between = f",{source.newline}{ahead}" if not ahead.strip() else ", "
            text = between.join(f"{n}={_spelled(change, wrap.keywords[n])}" for n in names)
            change.cut(*offsets(arg), text)
        elif arg.keyword is None:
            change.wrap(arg.value, f"{names[0]}={{0}}")


def _spelled(change: Planned, value: str | cst.BaseExpression) -> str:
    assert isinstance(value, str)
    return value.replace("torch.", f"{change.use('torch')}.") if "." in value else value


def _policy(context: Context, wrap: Wrap) -> None:
    function = wrap.policy
    if function is None or not _ours(context, function) or not context.plan.free(function):
        return
    change, name = context.plan.change(WRAPPER, function, _MESSAGE), symbol(context.roles, function)
    if name != MODULE_POLICY:
        path = f"{_PACKAGE}.wrap.{name}"
        context.plan.imports.twins[path] = frozenset({f"torch.distributed.fsdp.wrap.{name}"})
        change.replace(function, change.use(path))
        return
    call = context.index.parent(function)
    assert isinstance(call, cst.Call)
    partial, policy = change.use("functools"), change.use(f"{_PACKAGE}.wrap.transformer_auto_wrap_policy")
    text = f"{partial}.partial({policy}, transformer_layer_cls={{0}})"
    change.replace(call, text, call.args[0].value)


def _settings(context: Context) -> None:
    """What only the native wrapper was told, and how it was told to save."""
    for call in context.sharded.contexts:
        if _ours(context, call):
            change = context.plan.change(STATE, call, "the whole parameters are put together")
            item, statement = context.index.parent(call), bare(context, call)
            if isinstance(item, cst.WithItem):
                leave_with(context, change, item)
            elif statement is not None:
                change.remove(statement)
    for name in context.sharded.settings:
        for binding in context.roles.bindings(name) if _ours(context, name) else ():
            line = binding.statement
            if isinstance(line, cst.Assign) and _told_alone(context, name, line):
                context.plan.change(WRAPPER, line, "nothing asks for it any more").remove(line)


def _told_alone(context: Context, name: cst.Name, line: cst.Assign) -> bool:
    """Whether a variable is read by the wrappers and their contexts alone."""
    scope = context.index.scope_of(name).owner(name.value)
    targets = [t.target for t in line.targets]
    uses = [n for n in context.index.named_of(scope, name.value) if n not in targets]
    read = all(use in context.sharded.settings for use in uses)
    return read and len(targets) == 1 and not context.plan.taken(line)


def _whole(context: Context, state: State) -> None:
    change = context.plan.change(STATE, state.call, "the parts of all replicas are put together")
    joined = change.use(f"{_PACKAGE}.consolidate_sharded_state_dicts")
    parts = change.spell(context.target.mesh_reduce).replace("{0}", '"model_state"')
    parts = parts.replace("{1}", "{0}.state_dict()").replace("{2}", "list")
    change.replace(state.call, f"{joined}({parts}, {{0}}.get_shard_metadata())", state.model)
