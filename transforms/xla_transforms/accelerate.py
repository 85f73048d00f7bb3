"""What Accelerate is told, and what of it XLA refuses or passes over.

Source: accelerate v1.16, ``state.py`` (where torch_xla is installed the program is one of XLA, whatever a
plugin says; ``GradientState``) and ``accelerator.py`` (``prepare_model`` compiles for any device).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from xla_transforms.findings import Severity
from xla_transforms.lightning import strings
from xla_transforms.roles import Kind, Roles, options
from xla_transforms.roles.facts import of_kind
from xla_transforms.tree import string_value, value_of, walk

GUIDE = "https://huggingface.co/docs/accelerate/concept_guides/training_tpu"
_FSDP = "https://docs.pytorch.org/xla/release/r2.9/perf/fsdp.html"
_SHARD = f"torch_xla.distributed.fsdp shards a model that does not fit one device: {_FSDP}"
_PASSED_OVER = "Accelerate shards nothing on XLA: each device holds the whole model"
_WRAP = "wrap the model in torch_xla.distributed.fsdp.XlaFullyShardedDataParallel before prepare"
_PLUGINS: dict[str, tuple[str, str, Severity]] = {
    "deepspeed_plugin": (f"DeepSpeed is for GPUs; {_PASSED_OVER}", f"leave it out; {_SHARD}", Severity.ERROR),
    "fsdp_plugin": (
        f"{_PASSED_OVER}, and beside this plugin no gradients are reduced",
        f"leave it out, or {_WRAP}: {_FSDP}",
        Severity.ERROR,
    ),
    "megatron_lm_plugin": (
        f"Megatron-LM is for GPUs; {_PASSED_OVER}",
        f"leave it out; {_SHARD}",
        Severity.ERROR,
    ),
    "parallelism_config": (_PASSED_OVER, f"leave it out; {_SHARD}", Severity.WARNING),
    "torch_tp_plugin": (_PASSED_OVER, f"leave it out; {_SHARD}", Severity.WARNING),
}
_PLUGINS["deepspeed_plugins"] = _PLUGINS["deepspeed_plugin"]
_COMPILERS = ("dynamo_backend", "dynamo_plugin")
_NOT_COMPILED = ("no", "openxla")
_HALF = ("fp16", "fp8")


class Told(NamedTuple):
    """Something that Accelerate is told and that has to change: where, why, and to what."""

    value: cst.BaseExpression
    message: str
    advice: str
    severity: Severity


def told(roles: Roles, call: cst.Call, *, bfloat16: bool) -> Iterator[Told]:
    """What of a call's arguments is not for XLA; ``bfloat16`` where that is what the devices compute in."""
    given = options.told(roles, call)
    for name, value in given.named:
        if getattr(value, "value", "") == "None":
            continue
        if name in _PLUGINS:
            message, advice, severity = _PLUGINS[name]
            yield Told(value, message, advice, severity)
        elif name in _COMPILERS:
            yield from _compiled(roles, name, value)
        elif name == "mixed_precision" and bfloat16:
            yield from _half(roles, value)
        elif name == "rng_types" and any(string_value(node) == "cuda" for node in walk(value)):
            message = "the generator of CUDA cannot be kept alike in the processes of XLA"
            yield Told(value, message, 'write "xla" in the place of "cuda"', Severity.ERROR)
    if given.open:
        message = "what ** hands to Accelerate is not known here"
        yield Told(call, message, f"no plugin for GPUs, no Dynamo, no fp16: {GUIDE}", Severity.INFO)


def _compiled(roles: Roles, name: str, value: cst.BaseExpression) -> Iterator[Told]:
    texts = {text.lower() for text in strings(roles, value)}
    if name == "dynamo_backend" and texts and texts <= set(_NOT_COMPILED):
        return
    code = roles.index(value).source.code(value)
    message = f"{name}={code} has Dynamo compile the model, and its backends for GPUs fail on XLA"
    yield Told(value, message, 'leave it out (or "no"): XLA compiles the steps by itself', Severity.WARNING)


def _half(roles: Roles, value: cst.BaseExpression) -> Iterator[Told]:
    texts, sure = _named(roles, value)
    half = next((name for name in _HALF if name in texts), "")
    advice = "which needs no loss scaling"
    if string_value(value) == half != "":
        message = f"Accelerate refuses {half} on TPUs"
        yield Told(value, message, f'write mixed_precision="bf16", {advice}', Severity.WARNING)
    elif half or not sure:
        code = roles.index(value).source.code(value)
        message = f'mixed_precision={code} may be "{half or "fp16"}", which Accelerate refuses on TPUs'
        severity = Severity.WARNING if half else Severity.INFO
        yield Told(value, message, f'have it be "bf16", {advice}, or "no"', severity)


def _named(roles: Roles, value: cst.BaseExpression) -> tuple[set[str], bool]:
    """The texts that an expression may be, the choices of an option included; whether that is all."""
    facts = roles.facts(value)
    texts = strings(roles, value)
    sure = bool(texts) and {fact.kind for fact in facts} <= {Kind.STRING, Kind.NONE, Kind.OPTION}
    for option in (fact.node for fact in of_kind(facts, Kind.OPTION)):
        choices = value_of(option, "choices") if isinstance(option, cst.Call) else None
        named = {text for node in walk(choices) if (text := string_value(node))} if choices else set()
        texts, sure = texts | named, sure and bool(named)
    return {text.lower() for text in texts}, sure
