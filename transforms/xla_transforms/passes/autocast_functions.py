"""Around autocast: ``custom_fwd``, ``custom_bwd`` and the questions about autocast's state.

They take the device's type since torch 2.4 (``Target.amp_api`` is ``"device"``). Before, the questions are
named after the device and there is no ``custom_fwd`` for XLA (``"xla"``); up to 1.13 XLA tensors heed CUDA's
autocast, and what is asked about CUDA holds (``"cuda"``).
Sources: pytorch v2.9, ``torch/amp/autocast_mode.py`` (``custom_fwd`` takes ``device_type`` since 2.4) and
``torch/csrc/autograd/init.cpp`` (``is_autocast_enabled()`` without an argument asks about CUDA).
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.naming import is_word
from xla_transforms.tree import argument, has_star

CUSTOM = Rule(
    "XLA305",
    "autocast-custom-function",
    "custom_fwd and custom_bwd of an autograd Function are told that the device is XLA.",
    "CUDA's custom_fwd does not cast XLA tensors, nor does it switch XLA's autocast off.",
)
STATE = Rule(
    "XLA306",
    "autocast-state",
    "Questions about CUDA's autocast become questions about XLA's.",
    "torch.is_autocast_enabled() and get_autocast_gpu_dtype() speak of CUDA alone.",
)
CUSTOM_LEFT = Rule(
    "XLA308",
    "autocast-custom-function-left",
    "custom_fwd and custom_bwd are left, because the target has none for XLA.",
    "torch.amp.custom_fwd(device_type=...) came with torch 2.4; CUDA's does not heed XLA's autocast.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (CUSTOM, STATE, CUSTOM_LEFT)

_CUSTOM = frozenset(
    f"torch.{place}{name}"
    for place in ("cuda.amp.", "cuda.amp.autocast_mode.", "amp.", "amp.autocast_mode.")
    for name in ("custom_fwd", "custom_bwd")
)
_HALF = frozenset({"torch.float16", "torch.half"})
_RENAMED = {
    "torch.get_autocast_gpu_dtype": "get_autocast_dtype",
    "torch.set_autocast_gpu_dtype": "set_autocast_dtype",
}
# how many arguments the old form has, which speaks of CUDA without naming it
_OF_XLA = {
    "torch.is_autocast_enabled": "is_autocast_xla_enabled",
    "torch.set_autocast_enabled": "set_autocast_xla_enabled",
    "torch.get_autocast_gpu_dtype": "get_autocast_xla_dtype",
    "torch.set_autocast_gpu_dtype": "set_autocast_xla_dtype",
}
_UNNAMED = {"torch.is_autocast_enabled": 0, "torch.set_autocast_enabled": 1}
_NAMED = frozenset(
    {
        "torch.is_autocast_enabled", "torch.set_autocast_enabled", "torch.get_autocast_dtype",
        "torch.set_autocast_dtype", "torch.amp.is_autocast_available",
        "torch.amp.autocast_mode.is_autocast_available",
    }
)  # fmt: skip


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    for name in ("custom_fwd", "custom_bwd"):
        _calls(context, name)
    for decorator in context.index.all(cst.Decorator):
        assert isinstance(decorator, cst.Decorator)
        if not isinstance(decorator.decorator, cst.Call):
            _bare(context, decorator.decorator)
    for path in [*_RENAMED, *_NAMED]:
        for call in context.program.calls.get(path.split(".")[-1], ()):
            if context.roles.index(call) is context.index and context.roles.spelled(call.func) == {path}:
                _state(context, call, path)


def _bare(context: Context, decorator: cst.BaseExpression) -> None:
    paths = context.roles.spelled(decorator)
    if paths and paths <= _CUSTOM and context.target.amp_api != "device":
        _older(context, decorator, decorator, paths)
    elif paths and paths <= _CUSTOM and all(".cuda." in p for p in paths):
        change = context.plan.change(CUSTOM, decorator, "the Function runs on XLA")
        name = next(iter(paths)).split(".")[-1]
        torch, kind = change.use("torch"), context.target.device_type
        change.replace(decorator, f'{torch}.amp.{name}(device_type="{kind}")')


def _calls(context: Context, name: str) -> None:
    for call in context.program.calls.get(name, ()):
        paths = context.roles.spelled(call.func)
        ours = context.roles.index(call) is context.index and context.plan.free(call)
        if not ours or not paths or not paths <= _CUSTOM or has_star(call):
            continue
        if context.target.amp_api == "device":
            _custom(context, call, name)
        else:
            _older(context, call, call.func, paths)


def _older(context: Context, node: cst.CSTNode, callee: cst.BaseExpression, paths: frozenset[str]) -> None:
    """Before torch 2.4: torch_xla's own where XLA tensors heed CUDA's autocast, else nothing."""
    if context.target.amp_api == "cuda":
        _as_cuda(context, node, callee, next(iter(paths)).split(".")[-1])
        return
    message = "it does not heed autocast for XLA, and has no counterpart before torch 2.4"
    context.plan.report(CUSTOM_LEFT, node, message, "cast the inputs in forward by hand")


def _as_cuda(context: Context, node: cst.CSTNode, callee: cst.BaseExpression, name: str) -> None:
    device = argument(node, "device_type") if isinstance(node, cst.Call) else None
    if device is not None and not is_word(device.value):
        return
    change = context.plan.change(CUSTOM, node, "it is CUDA's own under torch_xla's name")
    text = change.use(f"torch_xla.amp.{name}")
    if isinstance(node, cst.Call) and len(node.args) == 1 and device is not None:
        change.replace(node, text)
        return
    change.replace(callee, text)
    if isinstance(node, cst.Call) and device is not None:
        change.drop(list(node.args), [device])


def _custom(context: Context, call: cst.Call, name: str) -> None:
    device = argument(call, "device_type")
    if device is not None and not is_word(device.value):
        return
    change = context.plan.change(CUSTOM, call, "the Function runs on XLA")
    word, torch = f'"{context.target.device_type}"', change.use("torch")
    cast = argument(call, "cast_inputs")
    if cast is not None and context.roles.spelled(cast.value) & _HALF:
        change.replace(cast.value, f"{torch}.{context.target.autocast_dtype}")
    if device is not None:
        change.replace(device.value, word)
        return
    head = f"device_type={word}"
    if not call.args:
        change.replace(call, f"{torch}.amp.{name}({head})")
        return
    change.replace(call.func, f"{torch}.amp.{name}")
    last = call.args[-1]
    change.wrap(last, f"{{0}}, {head}")


def _state(context: Context, call: cst.Call, path: str) -> None:
    if not context.plan.free(call) or has_star(call) or context.target.amp_api == "cuda":
        return
    if context.target.amp_api == "xla":
        _ask_xla(context, call, path)
        return
    word = f'"{context.target.device_type}"'
    first = call.args[0] if call.args else None
    if path in _RENAMED:
        change = context.plan.change(STATE, call, "autocast is XLA's now")
        change.replace(call.func, f"{change.use('torch')}.{_RENAMED[path]}")
    elif _UNNAMED.get(path) == len(call.args):
        change = context.plan.change(STATE, call, "autocast is XLA's now")
    elif first is not None and is_word(first.value):
        change = context.plan.change(STATE, call, "autocast is XLA's now")
        change.replace(first.value, word)
        return
    else:
        return
    if first is not None:
        change.wrap(first, f"{word}, {{0}}")
    else:
        change.cut(*_brackets(context, call), f"({word})")


def _ask_xla(context: Context, call: cst.Call, path: str) -> None:
    """``torch.is_autocast_xla_enabled()``, as it is asked before torch 2.4."""
    if path in _RENAMED or _UNNAMED.get(path) == len(call.args):
        change = context.plan.change(STATE, call, "autocast is XLA's now")
        change.replace(call.func, f"{change.use('torch')}.{_OF_XLA[path]}")


def _brackets(context: Context, call: cst.Call) -> tuple[int, int]:
    """Where the empty argument list of a call stands."""
    return context.plan.bracketed(call.func)[1], context.plan.offsets(call)[1]
