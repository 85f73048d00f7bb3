"""What transformers' Trainer is told: the optimizer, half precision, compiling, the batches, the workers.

The default optimizer is the fused AdamW where torch is 2.8 or newer, which raises on XLA tensors
(transformers v4.57 and v5.24, ``training_args.py``; run on torch_xla 2.9); ``adamw_torch_xla`` is
torch_xla's syncfree AdamW, the same update (v4.17 to v5.24). SageMaker's guide asks for it, too.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.frameworks import SETTERS
from xla_transforms.roles import Kind
from xla_transforms.roles.classes import find_method
from xla_transforms.roles.facts import of_kind
from xla_transforms.statements import sole_target
from xla_transforms.tree import argument, given, has_star, method, number_value, receiver, string_value, walk

OPTIMIZER = Rule(
    "XLA924",
    "trainer-optimizer",
    "transformers' Trainer is told to use torch_xla's AdamW where it would use the fused one.",
    "The fused AdamW, the default since torch 2.8, raises a RuntimeError on XLA tensors; adamw_torch_xla is "
    "the syncfree AdamW of torch_xla and computes the same (transformers v4.57, run on torch_xla 2.9).",
    Severity.WARNING,
)
HALF = Rule(
    "XLA925",
    "trainer-half-precision",
    "transformers' Trainer is told to train in bfloat16 where it was told float16.",
    "Accelerate refuses fp16 on TPUs with a ValueError (accelerate v1.15, accelerator.py); bfloat16 needs no "
    "loss scaling.",
    Severity.WARNING,
)
LAST = Rule(
    "XLA926",
    "trainer-last-batch",
    "transformers' Trainer keeps the smaller last batch of an epoch.",
    "Its shape is one more compilation; dataloader_drop_last decides (transformers, TrainingArguments).",
    safety=Safety.DISPLAY,
)
WORKERS = Rule(
    "XLA927",
    "trainer-workers",
    "transformers' Trainer loads its data in the process that trains.",
    "A compiled step is faster, and the data must not be what it waits for (SageMaker's guide: at least as "
    "many workers as devices, fewer than CPU cores).",
    safety=Safety.DISPLAY,
)
COMPILED = Rule(
    "XLA930",
    "trainer-compile",
    "transformers' Trainer is no longer told to compile the model by torch.compile.",
    "Its compiler for GPUs fails on XLA tensors, and XLA compiles the step by itself (run on torch_xla 2.9).",
)
CHECKPOINTING = Rule(
    "XLA936",
    "trainer-checkpointing",
    "transformers' Trainer is told to recompute activations, by a function that fails on XLA.",
    "torch.utils.checkpoint asks for a module torch.xla that does not exist; torch_xla has a function of its "
    "own (pytorch/xla v2.9.0, utils/checkpoint.py; run with transformers 4.57).",
    Severity.ERROR,
    Safety.DISPLAY,
)
GPUS = Rule(
    "XLA937",
    "trainer-gpu-argument",
    "transformers' Trainer is no longer told what is for GPUs alone.",
    "Where no CUDA device is seen, tf32=True and another ddp_backend than xla raise a ValueError "
    "(transformers v4.57 and v5.24, training_args.py; run on torch_xla 2.9).",
)
SHARDED = Rule(
    "XLA939",
    "trainer-sharding",
    "transformers' Trainer is told to part the model among GPUs.",
    "DeepSpeed has no XLA device; FSDP needs fsdp_config={'xla': True}, which has Trainer use torch_xla's "
    "(transformers v4.57, trainer.py and training_args.py).",
    Severity.ERROR,
    Safety.DISPLAY,
)
RULES = (OPTIMIZER, HALF, LAST, WORKERS, COMPILED, CHECKPOINTING, GPUS, SHARDED)

_FUSED = "adamw_torch_fused"
_CUDA_ONLY = ("paged_", "adamw_bnb", "adamw_apex", "adamw_8bit", "lion_8bit", "ademamix", "rmsprop_bnb")
_WORKERS = (
    "set dataloader_num_workers (and preprocessing_num_workers, or num_proc= of datasets) to at least the "
    "number of devices, and less than that of CPU cores"
)
_RECOMPUTE = (
    "leave it out, or set transformers.modeling_utils.checkpoint to torch_xla.utils.checkpoint.checkpoint "
    "before the model is made"
)
_TOLD_LATER = {
    "fp16": (HALF, "write bf16 = True instead"),
    "optim": (OPTIMIZER, 'write "adamw_torch_xla" where it is the fused AdamW or one of CUDA'),
    "gradient_checkpointing": (CHECKPOINTING, _RECOMPUTE),
    "deepspeed": (SHARDED, "leave it out"),
}
_UNKNOWN = '"adamw_torch_xla" exists since transformers 4.17; yours is not known'
_APEX = ("half_precision_backend", "fp16_backend", "fp16_opt_level")


def run(context: Context) -> None:
    frameworks = context.frameworks
    for call in frameworks.arguments:
        if context.roles.index(call) is context.index and context.plan.free(call):
            _arguments(context, call)
    for call in frameworks.argument_parsers:
        if context.roles.index(call) is context.index:
            _command_line(context, call)
    for assign in context.index.all(cst.Assign) if frameworks.trainers else ():
        target = sole_target(assign)
        if isinstance(target, cst.Attribute) and frameworks.holds_arguments(target.value):
            _later(context, assign, target.attr.value)
    for call in _setting(context):
        if context.roles.index(call) is context.index:
            _set(context, call)


def _setting(context: Context) -> list[cst.Call]:
    """The calls by which TrainingArguments are told more: ``args.set_optimizer(...)``."""
    calls = [call for name in SETTERS for call in context.program.calls.get(name, ())]
    return [call for call in calls if context.frameworks.holds_arguments(receiver(call))]


def _is_set(context: Context, setter: str, name: str) -> bool:
    """Whether a setter says something that the constructor leaves open; without a name, anything."""
    calls = [call for call in _setting(context) if method(call) == setter]
    return any(not name or given(call, name) is not None for call in calls)


def _set(context: Context, call: cst.Call) -> None:
    if method(call) == "set_optimizer" and (name := argument(call, "name", 0)) is not None:
        _chosen(context, name)
    recomputing = given(call, "gradient_checkpointing")
    if method(call) == "set_training" and recomputing is not None:
        _recomputing(context, recomputing)


def _later(context: Context, assign: cst.CSTNode, name: str) -> None:
    """Report what is told behind the constructor."""
    rule, advice = _TOLD_LATER.get(name, (None, ""))
    value = getattr(getattr(assign, "value", None), "value", "")
    half = rule is HALF and context.target.autocast_dtype != "bfloat16"
    ready = (string_value(getattr(assign, "value", None)) or "").startswith(("adamw_torch_xla", "sgd"))
    if rule is not None and value not in ("False", "None") and not half and not ready:
        context.plan.report(rule, assign, f"Trainer is told {name} behind its arguments", advice)


def _arguments(context: Context, call: cst.Call) -> None:
    if has_star(call):
        message = "what ** hands to TrainingArguments is not looked into"
        context.plan.report(OPTIMIZER, call, message, _by_hand(context), severity=Severity.INFO)
        return
    compiling = _compiling(call)
    if compiling:
        change = context.plan.change(COMPILED, compiling[0], "XLA compiles the step by itself")
        change.drop(call.args, compiling)
    gone = [*compiling, *_for_gpus(context, call)]
    _optimizer(context, call, [arg for arg in call.args if arg not in gone])
    _half(context, call)
    _sharding(context, call)
    recomputing = given(call, "gradient_checkpointing")
    if recomputing is not None:
        _recomputing(context, recomputing)
    _batches(context, call)


def _recomputing(context: Context, arg: cst.Arg) -> None:
    if getattr(arg.value, "value", "") != "False":
        message = "gradient_checkpointing fails on XLA: module 'torch' has no attribute 'xla'"
        context.plan.report(CHECKPOINTING, arg, message, _RECOMPUTE)


def _batches(context: Context, call: cst.Call) -> None:
    setter = "set_dataloader"
    if given(call, "dataloader_drop_last") is None and not _is_set(context, setter, "drop_last"):
        message = "the last training batch may be smaller: one more compilation"
        advice = "dataloader_drop_last=True gives one shape, at the price of the samples left over"
        context.plan.report(LAST, call, message, advice)
    workers = given(call, "dataloader_num_workers")
    by_one = workers is None or number_value(workers.value) == 0
    if by_one and not _is_set(context, setter, "num_workers"):
        context.plan.report(WORKERS, call, "batches are made by the process that trains", _WORKERS)


def _for_gpus(context: Context, call: cst.Call) -> list[cst.Arg]:
    """The arguments that raise where there is no CUDA device."""
    if context.target.launcher:  # its containers have GPUs
        return []
    tf32, backend = given(call, "tf32"), given(call, "ddp_backend")
    on = tf32 is not None and getattr(tf32.value, "value", "") not in ("False", "None")
    other = backend is not None and string_value(backend.value) not in (None, "xla")
    found = [arg for arg, wrong in ((tf32, on), (backend, other)) if arg is not None and wrong]
    if found and not any(map(context.plan.taken, found)):
        code = " and ".join(context.index.source.code(arg) for arg in found)
        change = context.plan.change(GPUS, found[0], f"{code} raises where there is no CUDA device")
        change.drop(call.args, found)
    return found


def _sharding(context: Context, call: cst.Call) -> None:
    """Report what parts the model: DeepSpeed, and FSDP that is not told of XLA."""
    deepspeed, fsdp, config = (given(call, name) for name in ("deepspeed", "fsdp", "fsdp_config"))
    if deepspeed is not None and getattr(deepspeed.value, "value", "") != "None":
        message = "Trainer is told to train by DeepSpeed, which has no XLA device"
        advice = 'leave it out, or write fsdp="full_shard", fsdp_config={"xla": True}'
        context.plan.report(SHARDED, deepspeed, message, advice)
    off = fsdp is None or getattr(fsdp.value, "value", "") in ("None", "False", '""', "''", "[]")
    if not off and "xla" not in (context.index.source.code(config.value) if config is not None else ""):
        assert fsdp is not None
        message = "without xla in its fsdp_config Trainer parts the model by FSDP for GPUs"
        context.plan.report(SHARDED, fsdp, message, 'write fsdp_config={"xla": True} beside it')


def _by_hand(context: Context) -> str:
    name = context.target.trainer_optimizer or "adamw_torch_xla"
    half = ", and bf16=True, not fp16=True" if context.target.autocast_dtype == "bfloat16" else ""
    return f"it should hold optim={name!r} (with transformers 4.17 or newer){half}"


def _compiling(call: cst.Call) -> list[cst.Arg]:
    """The arguments that have Trainer compile the model, unless for XLA."""
    names = ("torch_compile", "torch_compile_backend", "torch_compile_mode")
    found = [arg for name in names if (arg := given(call, name)) is not None]
    off = all(getattr(arg.value, "value", "") == "False" for arg in found)
    for_xla = any((string_value(arg.value) or "").startswith("openxla") for arg in found)
    return [] if off or for_xla else found


def _optimizer(context: Context, call: cst.Call, kept: list[cst.Arg]) -> None:
    chosen = given(call, "optim")
    if given(call, "deepspeed") is not None or _made_elsewhere(context):
        return
    if chosen is not None:
        _chosen(context, chosen)
        return
    if _has_field(context, call, "optim") or _is_set(context, "set_optimizer", ""):
        return
    name, what = context.target.trainer_optimizer, "the default optimizer may be the fused AdamW"
    if not name:
        context.plan.report(OPTIMIZER, call, f"{what}, which raises on XLA tensors", _UNKNOWN)
        return
    change = context.plan.change(OPTIMIZER, call, f"{what}, which raises on XLA tensors")
    change.append(call, kept, f'optim="{name}"')


def _chosen(context: Context, chosen: cst.Arg) -> None:
    """The optimizer that is named: that of torch_xla for the fused AdamW; others of CUDA are reported."""
    name = context.target.trainer_optimizer
    message = _replaced(context, _named(context, chosen.value))
    if message and not name:
        context.plan.report(OPTIMIZER, chosen, message, _UNKNOWN)
    elif message:
        if context.plan.free(chosen.value):
            context.plan.change(OPTIMIZER, chosen, message).replace(chosen.value, f'"{name}"')
    elif _named(context, chosen.value).startswith(_CUDA_ONLY):
        message = f"{context.index.source.code(chosen.value)} computes with CUDA kernels"
        context.plan.report(OPTIMIZER, chosen, message, f'write "{name}"', severity=Severity.ERROR)
    elif not _named(context, chosen.value):
        message = "which optimizer is chosen here is not known before the script runs"
        context.plan.report(OPTIMIZER, chosen, message, f"choose {name}", severity=Severity.INFO)


def _replaced(context: Context, named: str) -> str:
    """Why torch_xla's AdamW takes the place of an optimizer that computes the same."""
    if named == _FUSED:
        return "the fused AdamW, which raises on XLA tensors"
    if named == "adamw_torch" and context.target.launcher:
        return "SageMaker's guide asks for the syncfree AdamW, whose step waits for no host"
    return ""


def _made_elsewhere(context: Context) -> bool:
    """Whether the script makes the optimizer itself: it hands one over, or overrides how it is made."""
    trainers = context.frameworks.trainers
    own = [f.node for t in trainers for f in of_kind(context.roles.facts(t.func), Kind.CLASS)]
    methods = ("create_optimizer", "create_optimizer_and_scheduler")
    overrides = any(
        isinstance(c, cst.ClassDef) and find_method(context.roles, c, m) for c in own for m in methods
    )
    names = ("optimizers", "optimizer_cls_and_kwargs")
    return overrides or any(given(t, name) is not None for t in trainers for name in names)


def _has_field(context: Context, call: cst.Call, name: str) -> bool:
    """Whether the script's own class of arguments has a default of its own for a name."""
    classes = [f.node for f in of_kind(context.roles.facts(call.func), Kind.CLASS)]
    bodies = [s for c in classes if isinstance(c, cst.ClassDef) for s in walk(c.body)]
    return any(isinstance(s, cst.AnnAssign) and getattr(s.target, "value", "") == name for s in bodies)


def _named(context: Context, value: cst.BaseExpression) -> str:
    """The optimizer that a value names, be it a string or a member of ``OptimizerNames``."""
    path = context.roles.path(value)
    if "OptimizerNames." in path:
        return path.rpartition(".")[2].lower()
    texts = {f.detail for f in of_kind(context.roles.facts(value), Kind.STRING)}
    return string_value(value) or (texts.pop() if len(texts) == 1 else "")


def _half(context: Context, call: cst.Call) -> None:
    half = given(call, "fp16")
    off = half is not None and getattr(half.value, "value", "") == "False"
    if half is None or off or context.target.autocast_dtype != "bfloat16":
        return
    apex = next((name for name in _APEX if given(call, name) is not None), "")
    if apex or given(call, "bf16") is not None or half.keyword is None:
        message = "fp16 is refused on TPUs" + (f", and {apex} has no meaning beside bf16" if apex else "")
        context.plan.report(HALF, half, message, "write bf16=True instead")
        return
    message = "float16 becomes bfloat16: accelerate refuses fp16 on TPUs"
    change = context.plan.change(HALF, half, message)
    change.replace(half.keyword, "bf16")
    decided = context.roles.fold(half.value) is True and not isinstance(half.value, cst.Name)
    if decided and context.plan.free(half.value):
        change.replace(half.value, "True")
    context.plan.report(HALF, half, message, fixed=True)


def _command_line(context: Context, call: cst.Call) -> None:
    name = context.target.trainer_optimizer or "adamw_torch_xla"
    half = " --bf16 instead of --fp16," if context.target.autocast_dtype == "bfloat16" else ""
    advice = f"pass --optim {name},{half} --dataloader_drop_last True, and --dataloader_num_workers"
    message = "TrainingArguments come from the command line: the optimizer by default is the fused AdamW"
    context.plan.report(OPTIMIZER, call, message, advice)
