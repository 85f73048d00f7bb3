"""Frameworks that train for the script: what they do on XLA by themselves is left alone, which is said.

Sources: transformers v4.57 ``trainer.py`` (``is_torch_xla_available``); accelerate v1.15 ``data_loader.py``
(``MpDeviceLoaderWrapper``) and ``optimizer.py``; Lightning 2.5 "TPU training"; PyTorch-Ignite v0.5
``ignite.distributed``; Horovod v0.28 and fairscale v0.4, whose collectives are NCCL's, Gloo's and MPI's.
"""

from __future__ import annotations

import re

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.frameworks import ACCELERATORS
from xla_transforms.scopes import How
from xla_transforms.tree import given, string_value, value_of

UNCHANGED = Rule(
    "XLA921",
    "framework-trains",
    "A framework trains for the script and knows XLA: what is its own is left alone.",
    "It places model and batches, reduces gradients and ends steps by itself where torch_xla is installed.",
    safety=Safety.DISPLAY,
)
LEFT = Rule(
    "XLA922",
    "framework-left",
    "A framework has to be told, or to be replaced, by hand.",
    "It runs its training on CUDA, or it asks the script to name the accelerator.",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (UNCHANGED, LEFT)

_ACCELERATE = "https://huggingface.co/docs/accelerate/concept_guides/training_tpu"
_LIGHTNING = "https://lightning.ai/docs/pytorch/stable/accelerators/tpu_intermediate.html"
_IMPORTS = {
    "horovod": "{starter} starts one process a device, and xm.optimizer_step reduces the gradients: "
    "https://docs.pytorch.org/xla/release/r2.9/learn/pytorch-on-xla-devices.html",
    "fairscale": "sharding is in torch_xla.distributed.fsdp: "
    "https://docs.pytorch.org/xla/release/r2.9/perf/fsdp.html",
    "deepspeed": "torch.optim on one device, FSDP of torch_xla on several: "
    "https://docs.pytorch.org/xla/release/r2.9/perf/fsdp.html",
    "smdistributed": "take it out, or write torch.distributed and DistributedDataParallel for what it does: "
    "https://docs.pytorch.org/docs/stable/notes/ddp.html",
    "ignite": "idist.Parallel(backend='xla-tpu') and idist.device() choose XLA: "
    "https://docs.pytorch.org/ignite/distributed.html",
}
_LIGHTNING_TRAINERS = ("lightning", "pytorch_lightning")
_GPU = ("gpu", "cuda")
# What Lightning's XLAAccelerator takes in the place of what it refuses (lightning 2.5, trainer/connectors).
_LIGHTNING_TOLD = {
    "strategy": 'write strategy="xla" ("auto" on one device), or "xla_fsdp"',
    "precision": 'write precision="bf16-true" or "32-true"',
    "devices": 'write devices="auto"',
    "sync_batchnorm": "leave it out: XLA's strategies have none",
}
_FOR_GPUS = re.compile(
    r"^(ddp|fsdp|deepspeed|dp$|16(?!-true)|bf16-mixed)|\b(ddp|fsdp|deepspeed)strategy|cuda\."
)


def run(context: Context) -> None:
    for call in context.frameworks.trainers[:1]:
        if context.roles.index(call) is context.index:
            message = "Trainer places the model, moves the batches and ends the steps on XLA by itself"
            advice = "only what it is told, its entry point and its collators are looked at"
            context.plan.report(UNCHANGED, call, message, advice)
    for call, path in context.reached:
        if path in ACCELERATORS:
            half = given(call, "mixed_precision")
            if half is not None and string_value(half.value) == "fp16":
                advice = 'write mixed_precision="bf16", which needs no loss scaling'
                context.plan.report(LEFT, half, "Accelerate refuses fp16 on TPUs", advice)
            message = "Accelerate prepares model, optimizer and loaders for XLA: their loops stay as they are"
            advice = f"start it by accelerate launch with a config for XLA: {_ACCELERATE}"
            context.plan.report(UNCHANGED, call, message, advice)
        elif path.rpartition(".")[2] in ("Trainer", "Fabric") and path.startswith(_LIGHTNING_TRAINERS):
            _lightning(context, call)
    _engine(context)
    _imports(context)


def _engine(context: Context) -> None:
    """A program whose steps another engine does is left whole: half of it on XLA would train nowhere."""
    if context.frameworks.engine is None:
        return
    call, name = context.frameworks.engine
    package = context.roles.path(call.func).partition(".")[0]
    advice = _advice(context, package)
    if context.roles.index(call) is context.index:
        message = f"{name} does the steps, which XLA devices are not for: the program is left as it is"
        context.plan.report(LEFT, call, message, advice, severity=Severity.ERROR)
    elif context.speaks_of_gpu:
        first = context.index.source.module.body[0]
        context.plan.report(LEFT, first, f"left as its program is, whose steps {name} does", advice)


def _lightning(context: Context, call: cst.Call) -> None:
    named = value_of(call, "accelerator")
    places = {string_value(named) or ""} if named is not None else set()
    old = [a for a in call.args if a.keyword is not None and a.keyword.value == "gpus"]
    if places & set(_GPU) or old:
        what = old[0] if old else next(a for a in call.args if a.value is named)
        message = f"Lightning is told to use GPUs: {context.index.source.code(what)}"
        advice = f'write accelerator="tpu" (or "auto"), and strategy="xla" for several devices: {_LIGHTNING}'
        context.plan.report(LEFT, call, message, advice)
    elif not _told(context, call) and (named is None or places == {"auto"}):
        message = "Lightning moves model and batches and ends the steps on XLA by itself"
        context.plan.report(UNCHANGED, call, message, f"it finds a TPU by itself: {_LIGHTNING}")


def _told(context: Context, call: cst.Call) -> bool:
    """Report what Lightning is told that its XLA strategies refuse or cannot do."""
    found = [(given(call, name), advice) for name, advice in _LIGHTNING_TOLD.items()]
    wrong = [(arg, advice) for arg, advice in found if arg is not None and _of_gpus(context, arg)]
    for arg, advice in wrong:
        message = f"Lightning is told what is for GPUs: {context.index.source.code(arg)}"
        context.plan.report(LEFT, arg, message, f"{advice}: {_LIGHTNING}")
    return bool(wrong)


def _of_gpus(context: Context, arg: cst.Arg) -> bool:
    code = context.index.source.code(arg.value).strip("\"'").lower()
    return _FOR_GPUS.search(code) is not None or (code == "true" and arg.keyword is not None
                                                  and arg.keyword.value == "sync_batchnorm")  # fmt: skip


def _imports(context: Context) -> None:
    engine = context.frameworks.engine
    told = {context.roles.path(engine[0].func).partition(".")[0]} if engine is not None else set()
    for scope in context.index.scopes.values():
        for binding in (b for found in scope.bindings.values() for b in found if b.how is How.IMPORT):
            package = binding.name.split(".")[0]
            elsewhere = context.uses_cuda or context.frameworks.trains
            known_to_packages = package == "deepspeed" and elsewhere
            if package in _IMPORTS and package not in told and not known_to_packages:
                told.add(package)
                advice = _advice(context, package)
                context.plan.report(LEFT, binding.statement, f"{package} is left as it is", advice)


def _advice(context: Context, package: str) -> str:
    """What to write in the place of a package."""
    told = _IMPORTS.get(package, "{to_start}: https://docs.pytorch.org/xla/release/r2.9/perf/fsdp.html")
    return told.replace("{starter}", context.target.starter).replace("{to_start}", context.target.to_start)
