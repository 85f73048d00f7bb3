"""Models that transformers loads for GPUs: onto them, quantised for them, with kernels of theirs, in float16.

Sources: transformers v4.57 and v5.24 (``modeling_utils.py``: without a GPU ``device_map="auto"`` chooses the
CPU; ``trainer.py``: a model that has a device map is not moved); bitsandbytes and flash-attn are CUDA code.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles import Kind
from xla_transforms.roles.facts import of_kind
from xla_transforms.tree import given, string_value, value_of, walk

LOADED = Rule(
    "XLA198",
    "loaded-for-gpus",
    "A model that is trained is loaded in a way that is for GPUs alone.",
    "Where there is no GPU device_map leaves the model on the CPU, and kernels made for CUDA fail "
    "(transformers v4.57, modeling_utils.py).",
    Severity.ERROR,
)
HALF = Rule(
    "XLA199",
    "loaded-in-float16",
    "A model that is trained is loaded in float16.",
    "TPUs and Trainium compute in bfloat16, whose range is that of float32 (pytorch/xla guide: AMP).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (LOADED, HALF)

_PACKAGES = ("transformers.", "diffusers.", "peft.", "trl.", "sentence_transformers.")
_ADAPTED = ("peft.get_peft_model", "peft.mapping.get_peft_model")
_HALF = ("torch.float16", "torch.half", "float16")
_QUANTISED = ("load_in_8bit", "load_in_4bit")
_FLASH = ("flash_attention_2", "flash_attention_3", "kernels-community/flash-attn")


def run(context: Context) -> None:
    trains = context.frameworks.trains or context.program.calls.get("backward")
    if not trains or not context.program.mentions("from_pretrained"):
        return
    for call, path in context.reached:
        if path.startswith(_PACKAGES) and path.endswith(".from_pretrained"):
            for arg, message, advice in _for_gpus(context, call):
                if _placed_by_trainer(context, call, arg):
                    _drop(context, call, arg)
                else:
                    context.plan.report(LOADED, arg, message, advice)
            _half(context, call)


def _for_gpus(context: Context, call: cst.Call) -> Iterator[tuple[cst.Arg, str, str]]:
    placed = given(call, "device_map")
    if placed is not None and not _on_host(context, placed.value):
        code = context.index.source.code(placed)
        frameworks = context.frameworks
        who = "Trainer places" if frameworks.trainers else "Accelerate places" if frameworks.prepares else ""
        written = context.target.device.shown()
        advice = f"leave it out: {who} the model" if who else f"leave it out, and move the model to {written}"
        yield placed, f"{code} leaves the model on the CPU, or fails, where there are no GPUs", advice
    for name in (*_QUANTISED, "quantization_config"):
        arg = given(call, name)
        if arg is not None and _quantises(context, name, arg.value):
            yield arg, "bitsandbytes quantises the model, which only runs on CUDA", "load it in bfloat16"
    kernels = given(call, "attn_implementation")
    if kernels is not None and _texts(context, kernels.value) & set(_FLASH):
        message = f"{context.index.source.code(kernels)} needs flash-attn, which only runs on CUDA"
        yield kernels, message, 'write attn_implementation="sdpa" or "eager"'


def _drop(context: Context, call: cst.Call, arg: cst.Arg) -> None:
    change = context.plan.change(LOADED, arg, "Trainer places the model")
    change.drop([*call.args], [arg]).close(arg.value)


def _placed_by_trainer(context: Context, call: cst.Call, arg: cst.Arg) -> bool:
    """Whether a device map only names the one device of a model, not quantised, that Trainer is given."""
    if not _names_one(arg.value) or not context.plan.free(arg.value):
        return False
    told = ((given(call, name), name) for name in (*_QUANTISED, "quantization_config"))
    if any(other is not None and _quantises(context, name, other.value) for other, name in told):
        return False
    models = (value_of(trainer, "model", 0) for trainer in context.frameworks.trainers)
    return any(model is not None and call in _loaded(context, model) for model in models)


def _names_one(value: cst.BaseExpression) -> bool:
    """``"cuda:0"``, and ``{"": 0}`` with one device for the whole model."""
    if isinstance(value, cst.Dict):
        return len(value.elements) == 1 and string_value(getattr(value.elements[0], "key", None)) == ""
    return (string_value(value) or "").partition(":")[0] == "cuda"


def _loaded(context: Context, model: cst.BaseExpression) -> set[cst.CSTNode]:
    """The calls that load what an expression holds, be it with adapters of peft around it."""
    made = {fact.node for fact in context.roles.facts(model) if isinstance(fact.node, cst.Call)}
    wrapped = [c.args[0].value for c in made if context.roles.path(c.func) in _ADAPTED and c.args]
    return made.union(*(_loaded(context, inner) for inner in wrapped if inner is not model))


def _on_host(context: Context, value: cst.BaseExpression) -> bool:
    """Whether a device map names nothing but the host."""
    named = {text for node in walk(value) if (text := string_value(node))}
    places = named or _texts(context, value)
    return bool(places) and places <= {"cpu", "disk", "meta"}


def _quantises(context: Context, name: str, value: cst.BaseExpression) -> bool:
    if name in _QUANTISED:
        return getattr(value, "value", "") != "False"
    details = (fact.detail for fact in context.roles.facts(value))
    made = value if isinstance(value, cst.Call) else None
    path = context.roles.path(made.func) if made is not None else ""
    return any(text.endswith("BitsAndBytesConfig") for text in (path, *details))


def _half(context: Context, call: cst.Call) -> None:
    arg = given(call, "torch_dtype") or given(call, "dtype")
    if arg is None or context.target.autocast_dtype != "bfloat16":
        return
    named = {fact.detail for fact in of_kind(context.roles.facts(arg.value), Kind.NAME)}
    if (named | _texts(context, arg.value)) & set(_HALF):
        message = f"{context.index.source.code(arg)}: the model's weights are float16"
        context.plan.report(HALF, arg, message, "write torch.bfloat16, or torch.float32 to train all weights")


def _texts(context: Context, value: cst.BaseExpression) -> set[str]:
    found = {fact.detail for fact in of_kind(context.roles.facts(value), Kind.STRING)}
    return found | ({written} if (written := string_value(value)) else set())
