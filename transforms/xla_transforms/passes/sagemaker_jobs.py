"""Scripts that start training jobs on SageMaker: Training Compiler is switched on for its containers.

Sources: sagemaker-python-sdk v2.257.6 (the key is ``pytorchxla``; the estimators ``HuggingFace``, with
PyTorch 1.9 to 1.11, and ``PyTorch``, with 1.12 and 1.13, take ``compiler_config``, and each refuses
``pytorchxla`` without it; ``ModelTrainer`` forbids both) and v3 (which has no such estimators any more).
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.jobs import Job, entry, jobs
from xla_transforms.roles.facts import Kind
from xla_transforms.targets import TARGETS
from xla_transforms.targets.instances import FIRST_DISTRIBUTED
from xla_transforms.tree import argument, has_star, string_value

COMPILER = Rule(
    "XLA931",
    "sagemaker-compiler",
    "A job's estimator is given compiler_config=TrainingCompilerConfig().",
    "That is what makes SageMaker run the job in a container with PyTorch/XLA (sagemaker-python-sdk "
    "v2.257.6, training_compiler/config.py).",
    Severity.ERROR,
)
DISTRIBUTION = Rule(
    "XLA932",
    "sagemaker-distribution",
    'A job on several GPUs is given distribution={"pytorchxla": {"enabled": True}}.',
    "It is the only way to several devices that Training Compiler takes, and it calls _mp_fn(index) of the "
    "entry point in each process (sagemaker-python-sdk v2.257.6).",
    Severity.WARNING,
)
CLOSED = Rule(
    "XLA934",
    "sagemaker-compiler-closed",
    "SageMaker Training Compiler gets no new releases, and its containers no fixes.",
    "AWS says so at the head of its guides to the compiler; the existing containers stay accessible.",
    Severity.WARNING,
    Safety.DISPLAY,
    once=True,
)
LEFT = Rule(
    "XLA935",
    "sagemaker-job-left",
    "A script that starts jobs on SageMaker is left alone for other targets.",
    "Where and in which container a job runs is part of the move only for SageMaker's own containers.",
    safety=Safety.DISPLAY,
)
RULES = (COMPILER, DISTRIBUTION, CLOSED, LEFT)

_CONFIG = "TrainingCompilerConfig"
_TODAY = (
    "new work: torch.compile in AWS's current containers on GPUs, torch_xla on TPUs "
    "(https://docs.aws.amazon.com/sagemaker/latest/dg/training-compiler.html)"
)
_WRONG_KEY = "torchxla"  # as a translation of the guide has it


def run(context: Context) -> None:
    launcher = context.target.launcher
    body = context.index.source.module.body
    if launcher and body and (context.uses_cuda or context.frameworks.trainers):
        context.plan.report(CLOSED, body[0], "SageMaker Training Compiler gets no new releases", _TODAY)
    for job in jobs(context.roles, context.index):
        if not launcher:
            _left(context, job)
            continue
        context.plan.report(CLOSED, job.call, "SageMaker Training Compiler gets no new releases", _TODAY)
        if job.kind == "trainer":
            _model_trainer(context, job)
        elif job.kind == "container":
            _container(context, job)
        elif has_star(job.call):
            message = "what ** hands to the estimator is not looked into"
            context.plan.report(COMPILER, job.call, message, f"it needs compiler_config={_CONFIG}()")
        elif _fits(context, job):
            _compiler(context, job)
            _distribution(context, job, launcher)


def _left(context: Context, job: Job) -> None:
    message = f"a job on SageMaker is described here, which is not for {context.target.name}"
    names = [name for name, known in TARGETS.items() if known.launcher]
    advice = f"--target {names[0]} completes it for SageMaker's own containers" if names else ""
    context.plan.report(LEFT, job.call, message, advice)


def _container(context: Context, job: Job) -> None:
    """A generic Estimator runs the script in a container as it is, be it one with the compiler."""
    what = job.refused or "Estimator switches nothing on in Training Compiler's container"
    advice = "use the estimator HuggingFace or PyTorch, which choose the container, with compiler_config="
    context.plan.report(COMPILER, job.call, f"{what}: the script is run as it is there", advice)


def _model_trainer(context: Context, job: Job) -> None:
    starter = argument(job.call, "distributed")
    if starter is not None and getattr(starter.value, "value", "") != "None":
        message = f"{context.index.source.code(starter.value)} starts the script for CUDA's process groups"
        advice = "XLA's replicas are started by Training Compiler's launcher, or by the script itself"
        context.plan.report(DISTRIBUTION, starter, message, advice)
    wrong = {name: argument(job.call, name) for name in ("distribution", "compiler_config")}
    advice = "use the estimator HuggingFace or PyTorch of the SDK's version 2 with compiler_config="
    for name, arg in wrong.items():
        if arg is not None:
            message = f"ModelTrainer takes no {name}: it raises a ValidationError"
            context.plan.report(COMPILER, arg, message, advice)
    if not any(wrong.values()):
        message = "ModelTrainer has no argument that switches Training Compiler on"
        context.plan.report(COMPILER, job.call, message, advice)


def _fits(context: Context, job: Job) -> bool:
    """Whether the estimator would accept the compiler; else the reader is told why not."""
    if job.refused:
        message = f"Training Compiler is not switched on: {job.refused}"
        context.plan.report(COMPILER, job.call, message, f"then add compiler_config={_CONFIG}()")
    return not job.refused


def _compiler(context: Context, job: Job) -> None:
    if job.value("compiler_config") is None:
        change = context.plan.change(COMPILER, job.call, "Training Compiler is switched on")
        name = change.use(f"sagemaker.{job.kind}.{_CONFIG}")
        change.append(job.call, job.call.args, f"compiler_config={name}()")


def _distribution(context: Context, job: Job, launcher: str) -> None:
    wanted = f'{{"{launcher}": {{"enabled": True}}}}'
    value, mapping = job.value("distribution"), job.mapping("distribution")
    if value is None:
        _without_distribution(context, job, wanted)
        return
    if mapping is None or context.roles.index(mapping) is not context.index:
        advice = f"it should be {wanted}, the only one that Training Compiler takes"
        context.plan.report(DISTRIBUTION, value, "what is distributed how is not known here", advice)
        return
    if entry(mapping, launcher) is not None or not mapping.elements:
        return
    if job.release < FIRST_DISTRIBUTED[job.kind]:
        advice = "choose PyTorch 1.11, or start the script through the launcher script of SageMaker's guide"
        context.plan.report(DISTRIBUTION, value, f"{launcher} needs a newer PyTorch", advice)
    elif (wrong := entry(mapping, _WRONG_KEY)) is not None:
        change = context.plan.change(DISTRIBUTION, mapping, f"the SDK's name is {launcher}")
        change.replace(wrong.key, f'"{launcher}"')
    else:
        change = context.plan.change(DISTRIBUTION, mapping, "Training Compiler takes no other distribution")
        change.replace(mapping, wanted)
        entries = (e for e in mapping.elements if isinstance(e, cst.DictElement))
        names = ", ".join(string_value(e.key) or "?" for e in entries)
        message = f"{names} gives way to {launcher}, which calls _mp_fn(index) of the entry point"
        context.plan.report(DISTRIBUTION, mapping, message, fixed=True)


def _without_distribution(context: Context, job: Job, wanted: str) -> None:
    if job.devices == 1 or job.release < FIRST_DISTRIBUTED[job.kind]:
        return
    if job.devices is None:
        message = "how many GPUs the job gets is not known here"
        advice = f"with more than one: distribution={wanted}"
        context.plan.report(DISTRIBUTION, job.call, message, advice, severity=Severity.INFO)
        return
    change = context.plan.change(DISTRIBUTION, job.call, f"the job has {job.devices} GPUs")
    change.append(job.call, job.call.args, f"distribution={wanted}")
    point = job.value("entry_point")
    if point is not None and Kind.STRING in context.roles.kinds(point):
        code = context.index.source.code(point)
        message = f"{code} has to define _mp_fn(index) at module level: the launcher calls it in each process"
        context.plan.report(DISTRIBUTION, point, message, "migrate the entry point, too")
