"""Gradient modes: inference mode, activation checkpointing and anomaly detection.

``torch.inference_mode()`` raises on XLA tensors ("Cannot set version_counter for inference tensor", torch
2.9). ``torch.utils.checkpoint`` asks torch for a module named ``xla`` and raises; PyTorch/XLA has its own.
Source: pytorch/xla v2.9.0, ``torch_xla/utils/checkpoint.py``; pytorch v2.9, ``torch/utils/checkpoint.py``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.plan import Part
from xla_transforms.statements import live_calls, migrating
from xla_transforms.tree import has_star

INFERENCE = Rule(
    "XLA261",
    "inference-mode",
    "torch.inference_mode becomes torch.no_grad.",
    'On XLA tensors it raises "Cannot set version_counter for inference tensor" (torch 2.9).',
)
CHECKPOINT = Rule(
    "XLA262",
    "activation-checkpoint",
    "Activation checkpointing is that of PyTorch/XLA.",
    "torch.utils.checkpoint raises on XLA tensors (pytorch/xla v2.9.0, torch_xla/utils/checkpoint.py).",
)
CHECKPOINT_LEFT = Rule(
    "XLA263",
    "activation-checkpoint-left",
    "Activation checkpointing is used in a way that PyTorch/XLA does not offer.",
    "torch_xla.utils.checkpoint takes positional inputs and knows re-entrant autograd alone.",
    Severity.ERROR,
    Safety.DISPLAY,
)
ANOMALY = Rule(
    "XLA264",
    "anomaly-detection",
    "Anomaly detection reads every gradient on the host.",
    "Each read is an execution of its own; a step that is one execution becomes many.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (INFERENCE, CHECKPOINT, CHECKPOINT_LEFT, ANOMALY)

_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_ANOMALY = frozenset({"torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly"})
_PLAIN = frozenset({"use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop"})


def run(context: Context) -> None:
    if not migrating(context):
        return
    for call, path in live_calls(context):
        if path == "torch.inference_mode":
            _inference(context, call)
        elif path == _CHECKPOINT:
            _checkpoint(context, call)
        elif path == "torch.utils.checkpoint.checkpoint_sequential":
            advice = "call torch_xla.utils.checkpoint.checkpoint on each segment"
            context.plan.report(CHECKPOINT_LEFT, call, "checkpoint_sequential raises on XLA", advice)
        elif path in _ANOMALY and not (call.args and _is(call.args[0].value, "False")):
            context.plan.report(ANOMALY, call, "every step becomes many executions", "for debugging alone")
    if context.program.mentions("inference_mode", "checkpoint"):
        for node in context.index.all(cst.Attribute, cst.Name):
            _reference(context, node)


def _is(node: cst.CSTNode, word: str) -> bool:
    return isinstance(node, cst.Name) and node.value == word


def _inference(context: Context, call: cst.Call) -> None:
    change = context.plan.change(INFERENCE, call, "XLA tensors know no inference mode")
    torch = change.use("torch")
    if not call.args or _is(call.args[0].value, "True"):
        change.replace(call, f"{torch}.no_grad()")
    else:
        mode = call.args[0].value
        change.replace(call, f"{torch}.set_grad_enabled(not {_tight(mode, '{0}')})", mode)


def _reference(context: Context, node: cst.CSTNode) -> None:
    """``@torch.inference_mode`` without brackets, ``torch.utils.checkpoint.checkpoint`` handed on."""
    outer = context.index.parent(node)
    called = isinstance(outer, cst.Call) and outer.func is node
    if called or isinstance(outer, (cst.ImportAlias, cst.Attribute, cst.AssignTarget)):
        return
    path = context.roles.path(node)
    if path not in ("torch.inference_mode", _CHECKPOINT) or not context.plan.free(node):
        return
    if path == "torch.inference_mode" and isinstance(outer, cst.Decorator):
        change = context.plan.change(INFERENCE, node, "XLA tensors know no inference mode")
        change.replace(node, f"{change.use('torch')}.no_grad")
    elif path == _CHECKPOINT and not context.roles.dead(node):
        advice = "hand on torch_xla.utils.checkpoint.checkpoint"
        context.plan.report(CHECKPOINT_LEFT, node, "torch.utils.checkpoint raises on XLA", advice)


def _checkpoint(context: Context, call: cst.Call) -> None:
    keywords = {a.keyword.value: a for a in call.args if a.keyword is not None}
    inputs = [a.value for a in call.args if a.keyword is None]
    reentrant = keywords.get("use_reentrant")
    known = reentrant is None or _is(reentrant.value, "True") or _is(reentrant.value, "False")
    if not keywords.keys() <= _PLAIN or has_star(call) or len(inputs) < 2 or not known:
        advice = "pass every input by position to torch_xla.utils.checkpoint.checkpoint"
        context.plan.report(CHECKPOINT_LEFT, call, "torch.utils.checkpoint raises on XLA", advice)
        return
    change = context.plan.change(CHECKPOINT, call, "PyTorch/XLA has its own activation checkpointing")
    parts: list[Part] = [change.spell(context.target.checkpoint), *inputs]
    texts = [f"{{{i}}}" for i in range(1, len(parts))]
    if reentrant is not None and _is(reentrant.value, "False"):
        texts[1] = f"{_tight(inputs[1], texts[1])}.requires_grad_()"
        message = "re-entrant checkpointing trains a block only where an input of it requires a gradient"
        advice = "its first input is made to; write it by hand where that input holds integers"
        context.plan.report(CHECKPOINT, call, message, advice, severity=Severity.WARNING, fixed=True)
    if (preserve := keywords.get("preserve_rng_state")) is not None:
        parts.append(preserve.value)
        texts.append(f"preserve_rng_state={{{len(parts) - 1}}}")
    change.replace(call, "{0}(" + ", ".join(texts) + ")", *parts)


def _tight(node: cst.CSTNode, text: str) -> str:
    """Brackets around what an attribute would otherwise cut in two."""
    kinds = (cst.Name, cst.Attribute, cst.Subscript, cst.Call)
    return text if isinstance(node, kinds) else f"({text})"
