"""Autocast: every spelling of CUDA's mixed precision becomes ``torch.autocast("xla", dtype=torch.bfloat16)``.

``torch_xla.amp.autocast`` is not written: it fails on a CPU device (pytorch/xla v2.1 to v2.9,
``torch_xla/amp/autocast_mode.py``). A left-over ``torch.cuda.amp.autocast()`` silently computes in float32.
On XLA for CUDA (up to v2.8, ``csrc/tensor_impl.cpp``) it is the other way round, which the reader is told.
Up to v1.13 ``torch_xla.amp.autocast`` is CUDA's own, and takes its arguments.
Sources: pytorch v2.9, ``torch/amp/autocast_mode.py``; pytorch/xla guide "Automatic mixed precision".
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.naming import is_word
from xla_transforms.plan import Planned
from xla_transforms.recomputing import recomputed_in
from xla_transforms.roles import Kind
from xla_transforms.roles.facts import of_kind
from xla_transforms.roles.structure import at
from xla_transforms.scopes import How
from xla_transforms.tree import has_star

AUTOCAST = Rule(
    "XLA301",
    "autocast",
    "Autocast for CUDA becomes autocast for XLA, in bfloat16.",
    "CUDA's autocast does nothing to XLA tensors: the script would silently train in float32.",
)
DTYPE = Rule(
    "XLA302",
    "autocast-dtype",
    "Autocast to float16 becomes autocast to bfloat16.",
    "XLA devices compute in bfloat16, whose range is that of float32 (pytorch/xla guide: AMP).",
    safety=Safety.DISPLAY,
)
UNSURE = Rule(
    "XLA303",
    "autocast-dtype-unsure",
    "The type that autocast computes in comes from a variable that may be float16.",
    "float16 gradients underflow without a scaler, and TPU and Trainium have no float16 autocast.",
    Severity.WARNING,
    Safety.DISPLAY,
)
UNREADABLE = Rule(
    "XLA304",
    "autocast-left",
    "An autocast for CUDA is left, because its arguments are not written out.",
    "It would do nothing to XLA tensors.",
    Severity.WARNING,
    Safety.DISPLAY,
)
ON_CUDA = Rule(
    "XLA307",
    "autocast-on-xla-cuda",
    "Autocast for XLA does nothing where XLA runs on an NVIDIA GPU.",
    "Tensors of XLA on CUDA heed CUDA's autocast (pytorch/xla v2.1 to v2.8, csrc/tensor_impl.cpp), and "
    "torch_xla.amp.autocast, which knows both, fails on a CPU and on most Trainium releases.",
    Severity.WARNING,
    Safety.DISPLAY,
)
UNCACHED = Rule(
    "XLA309",
    "autocast-around-recomputation",
    "Autocast around a backward pass keeps no casts where blocks are computed again in it.",
    "Re-entrant checkpointing first computes without gradients; the casts of weights that autocast keeps "
    "have none, and the block would never be trained (run on torch_xla 2.9).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (AUTOCAST, DTYPE, UNSURE, UNREADABLE, ON_CUDA, UNCACHED)

_CUDA = frozenset({"torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"})
_ANY = frozenset({"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"})
_PARAMETERS = ("device_type", "dtype", "enabled", "cache_enabled")
_CUDA_PARAMETERS = ("enabled", "dtype", "cache_enabled")
_HALF = frozenset({"torch.float16", "torch.half"})


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    for node in _candidates(context):
        paths = context.roles.spelled(node)
        if paths and paths <= _CUDA | _ANY and not context.roles.dead(node):
            _reference(context, node, paths)


def _candidates(context: Context) -> list[cst.CSTNode]:
    """The attributes called ``autocast`` and the names under which autocast is imported."""
    scopes = context.index.scopes.values()
    imported = {
        name
        for scope in scopes
        for name, bindings in scope.bindings.items()
        if any(b.how is How.IMPORT and b.name in _CUDA | _ANY for b in bindings)
    }
    found: list[cst.CSTNode] = [node for name in imported for node in context.index.named(name)]
    attributes = context.index.all(cst.Attribute)
    return found + [n for n in attributes if isinstance(n, cst.Attribute) and n.attr.value == "autocast"]


def _reference(context: Context, node: cst.CSTNode, paths: frozenset[str]) -> None:
    parent = context.index.parent(node)
    if isinstance(parent, cst.Call) and parent.func is node:
        _call(context, parent, node, list(parent.args), paths)
        return
    call = context.index.parent(parent) if isinstance(parent, cst.Arg) else None
    if isinstance(call, cst.Call) and context.roles.path(call.func) == "functools.partial":
        if call.args[0] is parent:
            _call(context, call, node, list(call.args[1:]), paths)
    elif isinstance(parent, (cst.Assign, cst.IfExp, cst.Return, cst.Arg, cst.DictElement)) and paths <= _CUDA:
        _alone(context, node)


def _alone(context: Context, node: cst.CSTNode) -> None:
    """``amp_autocast = torch.cuda.amp.autocast``: called later, with the arguments that CUDA's took."""
    target = context.target
    if not target.autocast_device:
        change = context.plan.change(AUTOCAST, node, "autocast of torch_xla takes CUDA's arguments")
        change.replace(node, change.spell(target.autocast))
        return
    change = context.plan.change(AUTOCAST, node, "calls of it compute in bfloat16 on XLA")
    kind, dtype = target.autocast_device, _dtype_text(context, change)
    partial = f"{change.use('functools')}.partial"
    change.replace(node, f'{partial}({change.spell(target.autocast)}, "{kind}", dtype={dtype})')
    _remark(context, node)


def _call(
    context: Context, call: cst.Call, callee: cst.CSTNode, args: list[cst.Arg], paths: frozenset[str]
) -> None:
    for_cuda = paths <= _CUDA or (bool(paths & _CUDA) and not _names_device(args))
    if not context.plan.free(call) or (not for_cuda and _elsewhere(context, args)):
        return
    if has_star(call):
        advice = f"call {context.target.autocast.shown()}({_shown(context)}) with its arguments written out"
        context.plan.report(UNREADABLE, call, "autocast is called with unpacked arguments", advice)
        return
    more = _uncached(context, call, _given(args, "cache_enabled", 2 if for_cuda else 3))
    if not context.target.autocast_device:
        _as_cuda(context, call, callee, args, for_cuda=for_cuda)
        return
    if for_cuda:
        _of_cuda(context, call, callee, args, more)
    else:
        _of_device(context, call, args, more)
    _remark(context, call)


def _uncached(context: Context, call: cst.Call, kept: cst.Arg | None) -> str:
    """What an autocast is told beside the rest where checkpointed blocks are computed again in it."""
    if not recomputed_in(context, call) or getattr(kept and kept.value, "value", "") == "False":
        return ""
    message = "the backward pass in it computes checkpointed blocks again, with casts that have no gradient"
    if context.target.autocast_device and kept is None:
        context.plan.report(UNCACHED, call, f"{message}: none are kept", severity=Severity.INFO, fixed=True)
        return ", cache_enabled=False"
    context.plan.report(UNCACHED, call, message, "call backward() behind the autocast")
    return ""


def _shown(context: Context) -> str:
    """The arguments that autocast gets, for the reader."""
    kind, dtype = context.target.autocast_device, context.target.autocast_dtype
    return f'"{kind}", dtype=torch.{dtype}' if kind else ""


def _remark(context: Context, node: cst.CSTNode) -> None:
    remark = context.target.autocast_remark
    if remark and not any(f.code == ON_CUDA.code for f in context.plan.findings):
        message = "on an NVIDIA GPU, XLA tensors heed CUDA's autocast alone: there this computes in float32"
        context.plan.report(ON_CUDA, node, message, f"there write {remark}")


def _names_device(args: list[cst.Arg]) -> bool:
    first = args[0].value if args and args[0].keyword is None else None
    named = any(a.keyword and a.keyword.value == "device_type" for a in args)
    return named or isinstance(first, cst.SimpleString)


def _elsewhere(context: Context, args: list[cst.Arg]) -> bool:
    """Whether autocast is for another device than CUDA."""
    device = _given(args, "device_type", 0)
    return device is not None and not context.roles.places(device.value) & {"cuda", "?"}


def _given(args: list[cst.Arg], name: str, position: int) -> cst.Arg | None:
    named = next((a for a in args if a.keyword and a.keyword.value == name), None)
    plain = [a for a in args if a.keyword is None]
    return named or (plain[position] if position < len(plain) else None)


def _of_cuda(
    context: Context, call: cst.Call, callee: cst.CSTNode, args: list[cst.Arg], more: str
) -> None:
    """``torch.cuda.amp.autocast(enabled, dtype, cache_enabled)``."""
    change = context.plan.change(AUTOCAST, call, "autocast for CUDA would do nothing to XLA tensors")
    name = change.spell(context.target.autocast)
    named = {arg.keyword.value if arg.keyword else _CUDA_PARAMETERS[i]: arg for i, arg in enumerate(args)}
    head = f'"{context.target.autocast_device}"'
    if "dtype" not in named:
        head += f", dtype={_dtype_text(context, change)}"
    else:
        _settle_dtype(context, change, named["dtype"].value)
    if not args:
        partial = callee is not call.func
        head += more
        change.replace(callee, f"{name}, {head}") if partial else change.replace(call, f"{name}({head})")
        return
    change.replace(callee, name)
    for position, (key, arg) in enumerate(named.items()):
        prefix = f"{head}, " if position == 0 else ""
        keyword = "" if arg.keyword else f"{key}="
        suffix = more if position + 1 == len(named) else ""
        if prefix or keyword or suffix:
            change.wrap(arg, f"{prefix}{keyword}{{0}}{suffix}")


def _as_cuda(
    context: Context, call: cst.Call, callee: cst.CSTNode, args: list[cst.Arg], *, for_cuda: bool
) -> None:
    """The target's autocast takes what ``torch.cuda.amp.autocast`` takes: the device's name goes."""
    message = "autocast of torch_xla takes CUDA's arguments"
    change = context.plan.change(AUTOCAST, call, message)
    change.replace(callee, change.spell(context.target.autocast))
    device = None if for_cuda else _given(args, "device_type", 0)
    for position, arg in enumerate(args):
        if arg is not device and not for_cuda and arg.keyword is None:
            change.wrap(arg, f"{_PARAMETERS[position]}={{0}}")
    if device is not None:
        change.drop(list(call.args), [device])


def _of_device(context: Context, call: cst.Call, args: list[cst.Arg], more: str) -> None:
    """``torch.autocast(device_type, dtype, enabled, cache_enabled)``."""
    device, dtype = _given(args, "device_type", 0), _given(args, "dtype", 1)
    change = context.plan.change(AUTOCAST, call, "autocast for CUDA would do nothing to XLA tensors")
    if device is not None and is_word(device.value):
        added = f", dtype={_dtype_text(context, change)}" if dtype is None else ""
        change.replace(device.value, f'"{context.target.autocast_device}"{added}')
    if dtype is not None:
        _settle_dtype(context, change, dtype.value)
    if more:
        change.wrap(args[-1], f"{{0}}{more}")


def _dtype_text(context: Context, change: Planned) -> str:
    return f"{change.use('torch')}.{context.target.autocast_dtype}"


def _settle_dtype(context: Context, change: Planned, value: cst.BaseExpression) -> None:
    if context.roles.spelled(value) & _HALF:
        change.replace(value, _dtype_text(context, change))
        message = "autocast computes in bfloat16 instead of float16: less precise, but no underflow"
        context.plan.report(DTYPE, value, message, fixed=True)
        return
    possible = _dtypes(context, value)
    if possible & _HALF or "?" in possible:
        text = context.index.source.code(value)
        message = f"{text} may be float16; XLA devices compute in bfloat16"
        context.plan.report(UNSURE, value, message, "let it be torch.bfloat16")


def _dtypes(context: Context, value: cst.BaseExpression) -> set[str]:
    """The types that an expression may name, ``?`` among them where one is not known."""
    roles = context.roles
    if isinstance(value, cst.Name):
        bindings = roles.bindings(value)
        if len(bindings) == 1 and bindings[0].value is not None and not bindings[0].path:
            with roles.guarded(("dtype", value)) as free:
                return _dtypes(context, bindings[0].value) if free else {"?"}
    if isinstance(value, cst.Subscript) and len(value.slice) == 1:
        index = value.slice[0].slice
        keys = roles.facts(index.value) if isinstance(index, cst.Index) else frozenset()
        if keys and all(f.kind is Kind.STRING and f.detail for f in keys):
            return _chosen(context, value.value, {f.detail for f in keys})
    facts = roles.facts(value)
    unknown = any(f.kind not in (Kind.NAME, Kind.NONE) for f in facts)
    named = {f.detail for f in of_kind(facts, Kind.NAME)}
    return {name for name in named if name.startswith("torch.")} | ({"?"} if unknown else set())


def _chosen(context: Context, table: cst.BaseExpression, keys: set[str]) -> set[str]:
    """The types under some keys of a dictionary."""
    found = frozenset(f for key in keys for f in at(context.roles, context.roles.facts(table), (key,)))
    return {f.detail if f.kind is Kind.NAME else "?" for f in found}
