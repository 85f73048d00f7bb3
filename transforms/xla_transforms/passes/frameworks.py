"""Frameworks that train for the script: what they do on XLA by themselves is left alone, which is said.

Sources: transformers v4.57 ``trainer.py`` (``is_torch_xla_available``); accelerate v1.15 ``data_loader.py``
(``MpDeviceLoaderWrapper``) and ``optimizer.py``; Lightning 2.5 "TPU training"; PyTorch-Ignite v0.5
``ignite.distributed``; Horovod v0.28 and fairscale v0.4, whose collectives are NCCL's, Gloo's and MPI's.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.scopes import How
from xla_transforms.tree import string_value, value_of

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
_ACCELERATORS = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator")
_IMPORTS = {
    "horovod": "{starter} starts one process a device, and xm.optimizer_step reduces the gradients: "
    "https://docs.pytorch.org/xla/release/r2.9/learn/pytorch-on-xla-devices.html",
    "fairscale": "sharding is in torch_xla.distributed.fsdp: "
    "https://docs.pytorch.org/xla/release/r2.9/perf/fsdp.html",
    "deepspeed": "torch.optim on one device, FSDP of torch_xla on several: "
    "https://docs.pytorch.org/xla/release/r2.9/perf/fsdp.html",
    "ignite": "idist.Parallel(backend='xla-tpu') and idist.device() choose XLA: "
    "https://docs.pytorch.org/ignite/distributed.html",
}
_LIGHTNING_TRAINERS = ("lightning", "pytorch_lightning")
_GPU = ("gpu", "cuda")


def run(context: Context) -> None:
    for call in context.frameworks.trainers[:1]:
        if context.roles.index(call) is context.index:
            message = "Trainer places the model, moves the batches and ends the steps on XLA by itself"
            advice = "only what it is told, its entry point and its collators are looked at"
            context.plan.report(UNCHANGED, call, message, advice)
    for call, path in context.reached:
        if path in _ACCELERATORS:
            message = "Accelerate prepares model, optimizer and loaders for XLA: their loops stay as they are"
            advice = f"start it by accelerate launch with a config for XLA: {_ACCELERATE}"
            context.plan.report(UNCHANGED, call, message, advice)
        elif path.rpartition(".")[2] in ("Trainer", "Fabric") and path.startswith(_LIGHTNING_TRAINERS):
            _lightning(context, call)
    _imports(context)


def _lightning(context: Context, call: cst.Call) -> None:
    named = value_of(call, "accelerator")
    places = {string_value(named) or ""} if named is not None else set()
    old = [a for a in call.args if a.keyword is not None and a.keyword.value == "gpus"]
    if places & set(_GPU) or old:
        what = old[0] if old else next(a for a in call.args if a.value is named)
        message = f"Lightning is told to use GPUs: {context.index.source.code(what)}"
        advice = f'write accelerator="tpu" (or "auto"), and strategy="xla" for several devices: {_LIGHTNING}'
        context.plan.report(LEFT, call, message, advice)
    elif named is None or places == {"auto"}:
        message = "Lightning moves model and batches and ends the steps on XLA by itself"
        context.plan.report(UNCHANGED, call, message, f"it finds a TPU by itself: {_LIGHTNING}")


def _imports(context: Context) -> None:
    told: set[str] = set()
    for scope in context.index.scopes.values():
        for binding in (b for found in scope.bindings.values() for b in found if b.how is How.IMPORT):
            package = binding.name.split(".")[0]
            elsewhere = context.uses_cuda or context.frameworks.trains
            known_to_packages = package == "deepspeed" and elsewhere
            if package in _IMPORTS and package not in told and not known_to_packages:
                told.add(package)
                advice = _IMPORTS[package].replace("{starter}", context.target.starter)
                context.plan.report(LEFT, binding.statement, f"{package} is left as it is", advice)
