"""Frameworks that train for the script: what they do on XLA by themselves is left alone, which is said.

Sources: transformers v4.57 ``trainer.py`` (``is_torch_xla_available``); accelerate v1.15 ``data_loader.py``
(``MpDeviceLoaderWrapper``) and ``optimizer.py``; Lightning 2.5 "TPU training"; PyTorch-Ignite v0.5
``ignite.distributed``; Horovod v0.28 and fairscale v0.4, whose collectives are NCCL's, Gloo's and MPI's.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms import accelerate, lightning
from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.frameworks import ACCELERATORS
from xla_transforms.roles.ranks import COUNTS
from xla_transforms.scopes import How

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


def run(context: Context) -> None:
    for call in context.frameworks.trainers[:1]:
        if context.roles.index(call) is context.index:
            message = "Trainer places the model, moves the batches and ends the steps on XLA by itself"
            advice = "only what it is told, its entry point and its collators are looked at"
            context.plan.report(UNCHANGED, call, message, advice)
    for call, path in context.reached:
        if path in ACCELERATORS:
            _accelerate(context, call)
    for call in context.frameworks.lightning:
        if context.roles.index(call) is context.index:
            _lightning(context, call)
    _counts(context)
    _engine(context)
    _imports(context)


def _accelerate(context: Context, call: cst.Call) -> None:
    """Report what Accelerate is told that XLA refuses or passes over."""
    roles = context.roles
    for one in accelerate.told(roles, call, bfloat16=context.target.autocast_dtype == "bfloat16"):
        place = one.value if roles.index(one.value) is context.index else call
        context.plan.report(LEFT, place, one.message, one.advice, severity=one.severity)
    message = "Accelerate prepares model, optimizer and loaders for XLA: their loops stay as they are"
    advice = f"start it by accelerate launch with a config for XLA: {accelerate.GUIDE}"
    context.plan.report(UNCHANGED, call, message, advice)


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
    """Report what Lightning is told that its strategies for XLA refuse or cannot do."""
    roles, found = context.roles, lightning.told(context.roles, call)
    named = [one.value for one in found if one.name == "accelerator"]
    accelerators = {text for value in named for text in lightning.strings(roles, value)}
    wrong = [one for one in found if lightning.of_gpus(roles, one, accelerators)]
    for one in wrong:
        if not context.plan.taken(one.value):
            home = roles.index(one.value)
            place = one.value if home is context.index else call
            message = f"Lightning is told what is for GPUs: {one.name}={home.source.code(one.value)}"
            context.plan.report(LEFT, place, message, f"{lightning.advice(one)}: {_LIGHTNING}")
    open_questions = list(lightning.unknown(roles, call))
    for message in open_questions:
        advice = f'it should be accelerator="tpu" (or "auto"), devices="auto": {_LIGHTNING}'
        context.plan.report(LEFT, call, message, advice, severity=Severity.INFO)
    if not wrong and not open_questions and accelerators <= {"auto", "tpu"}:
        message = "Lightning moves model and batches and ends the steps on XLA by itself"
        context.plan.report(UNCHANGED, call, message, f"it finds a TPU by itself: {_LIGHTNING}")


def _counts(context: Context) -> None:
    """Report where GPUs are still counted: until a framework starts its processes XLA must not be asked."""
    if context.frameworks.lightning:
        advice = 'write devices="auto"; trainer.world_size is the number of processes'
    elif context.frameworks.prepares:
        name = context.frameworks.accelerator_in(context.index) or "accelerator"
        advice = f"{name}.num_processes is the number of processes, each with one device"
    else:
        return
    for call, path in context.reached:
        if path in COUNTS and not context.plan.taken(call):
            context.plan.report(LEFT, call, f"{path}() counts GPUs, and finds none on XLA", advice)


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
