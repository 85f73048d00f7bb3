"""What a script asks of CUDA's tools: commands, variables of the environment, versions, profilers.

Only reported. Sources: pytorch v2.9 (``torch.version.cuda`` and ``cudnn.version()`` are ``None`` without
CUDA; ``torch.profiler`` leaves out activities that are not there); pytorch/xla v2.9.0, ``runtime.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles.ranks import COUNTS
from xla_transforms.statements import migrating, path_of
from xla_transforms.tree import string_value, value_of, walk

COMMAND = Rule(
    "XLA209",
    "gpu-command",
    "The script starts a command of NVIDIA's, or one that starts training on CUDA.",
    "Without NVIDIA's driver the command fails, and processes that it starts would not train on XLA devices.",
    Severity.WARNING,
    Safety.DISPLAY,
)
VARIABLE = Rule(
    "XLA210",
    "cuda-environment-read",
    "The script asks or hands on an environment variable of CUDA's.",
    "Nobody sets it where there are no GPUs, and the XLA runtime does not ask it (PJRT_DEVICE chooses).",
    Severity.WARNING,
    Safety.DISPLAY,
)
VERSION = Rule(
    "XLA214",
    "cuda-version",
    "The version of CUDA or cuDNN is computed with.",
    "It is None without CUDA: comparing it, or taking it apart, fails.",
    Severity.WARNING,
    Safety.DISPLAY,
)
PROFILER = Rule(
    "XLA245",
    "cuda-profiler",
    "A profiler of torch records what CUDA does.",
    "There is nothing of CUDA's to record; what an XLA device does is seen by torch_xla.debug.profiler.",
    Severity.INFO,
    Safety.DISPLAY,
)
RULES = (COMMAND, VARIABLE, VERSION, PROFILER)

_STARTS = ("subprocess.", "os.system", "os.popen", "os.exec", "os.spawn", "os.posix_spawn", "asyncio.create_")
_PYTHON = "start the script by python: {starter} starts a process for each device"
_CHIPS = "leave it out; PJRT_DEVICE chooses the kind of device, on TPUs TPU_VISIBLE_CHIPS the chips"
_COMMANDS = {
    "nvidia-smi": "leave it out; {memory} tells how much memory is used",
    "torchrun": _PYTHON,
    "torch.distributed.launch": _PYTHON,
    "torch.distributed.run": _PYTHON,
    "deepspeed": _PYTHON,
    "horovodrun": _PYTHON,
    "accelerate launch": "accelerate launch --tpu calls main() of the script in a process for each device",
    "CUDA_VISIBLE_DEVICES": _CHIPS,
}
_WORD = re.compile(
    r"(?<![\w./-])(?:[\w./]*/)?(nvidia-smi|torchrun|torch\.distributed\.(?:launch|run)|deepspeed"
    r"|horovodrun|accelerate launch(?! --tpu)"
    r"|CUDA_VISIBLE_DEVICES(?==))(?![\w-]*\.\w|[\w-])"
)
_VARIABLE = re.compile(r"(?:CUDA|PYTORCH_CUDA|PYTORCH_NO_CUDA|CUBLAS|CUDNN|TORCH_CUDNN)_[A-Z0-9_]+")
_VERSIONS = ("torch.version.cuda", "torch.backends.cudnn.version")
_CONVERTS = ("builtins.float", "builtins.int", "builtins.tuple", "packaging.version.", "distutils.version.")
_PROFILERS = ("torch.autograd.profiler.profile", "torch.autograd.profiler_legacy.profile")


def run(context: Context) -> None:
    if context.frameworks.engine is not None:
        return
    starting = _starting(context)
    started = {text for call in starting for text in _commands(context, call)}
    for call in (c for c in starting if _for_each_gpu(context, c)):
        advice = _PYTHON.replace("{starter}", context.target.starter)
        context.plan.report(COMMAND, call, "a command starts a process for each GPU", advice)
    if not migrating(context):
        return
    for text in context.index.all(cst.SimpleString):
        assert isinstance(text, cst.SimpleString)
        if text not in started and _VARIABLE.fullmatch(string_value(text) or "") and _left(context, text):
            message = f"only CUDA reads {string_value(text)}"
            severity = Severity.WARNING if _must_be_set(context, text) else Severity.INFO
            context.plan.report(VARIABLE, text, message, _CHIPS, severity=severity)
    for node in context.index.all(cst.Attribute):
        if path_of(context, node) in _VERSIONS and _left(context, node) and _computed(context, node):
            message = f"{path_of(context, node)} gives None without CUDA, which this cannot take"
            context.plan.report(VERSION, node, message, "leave it out, or ask whether it is None first")
    _profilers(context)


def _must_be_set(context: Context, text: cst.CSTNode) -> bool:
    """Whether a name is looked up so that it fails where nobody set it: ``os.environ[...]``."""
    outer = [n for n in context.index.ancestors(text) if isinstance(n, (cst.Subscript, cst.BaseStatement))]
    place = outer[0] if outer else text
    if not isinstance(place, cst.Subscript) or path_of(context, place.value) != "os.environ":
        return False
    return not isinstance(context.index.parent(place), (cst.AssignTarget, cst.Del))


def _left(context: Context, node: cst.CSTNode) -> bool:
    """Whether what stands there is run, and no change writes it."""
    return not context.plan.taken(node) and not context.roles.dead(node)


def _starting(context: Context) -> list[cst.Call]:
    """The calls that start other programs."""
    return [c for c, path in context.reached if path.startswith(_STARTS) and not context.plan.taken(c)]


def _for_each_gpu(context: Context, call: cst.Call) -> bool:
    """Whether a loop around a call counts the GPUs: ``for rank in range(torch.cuda.device_count())``."""
    for loop in (a for a in context.index.ancestors(call) if isinstance(a, cst.For)):
        counted = value_of(loop.iter, "stop", 0) if isinstance(loop.iter, cst.Call) else None
        named = context.roles.bindings(counted) if isinstance(counted, cst.Name) else []
        values = [counted, *(b.value for b in named)]
        if any(isinstance(v, cst.Call) and context.roles.path(v.func) in COUNTS for v in values):
            return True
    return False


def _commands(context: Context, call: cst.Call) -> list[cst.CSTNode]:
    """Tell of each command for GPUs that a call starts; the texts that name one."""
    texts = dict(_texts(context, call))
    whole = " ".join(texts.values())  # "accelerate", "launch" are two words of one command
    found = {match[1]: None for match in _WORD.finditer(whole)}
    for word in found:
        advice = _COMMANDS[word].replace("{memory}", context.target.memory_info.shown())
        advice = advice.replace("{starter}", context.target.starter)
        context.plan.report(COMMAND, call, f"{word} is of no use without CUDA", advice)
    return [text for text, written in texts.items() if any(word in written for word in found)]


def _texts(context: Context, call: cst.Call) -> Iterator[tuple[cst.CSTNode, str]]:
    """The texts that a command is made of, be they in a variable."""
    names = (node for node in walk(call) if isinstance(node, cst.Name))
    held = [b.value for name in names for b in context.roles.bindings(name) if b.value is not None]
    for node in (node for part in (call, *held) for node in walk(part)):
        if isinstance(node, cst.SimpleString):
            yield node, string_value(node) or ""
        elif isinstance(node, cst.FormattedStringText):
            yield node, node.value


def _computed(context: Context, node: cst.CSTNode) -> bool:
    """Whether a value is compared, taken apart or converted, not only shown or asked for."""
    parent = context.index.parent(node)
    if isinstance(parent, cst.Call) and parent.func is node:
        node, parent = parent, context.index.parent(parent)
    if isinstance(parent, cst.Arg):
        call = context.index.parent(parent)
        return isinstance(call, cst.Call) and context.roles.path(call.func).startswith(_CONVERTS)
    if isinstance(parent, cst.Comparison):
        operators = [one.operator for one in parent.comparisons]
        return not all(isinstance(o, (cst.Is, cst.IsNot, cst.Equal, cst.NotEqual)) for o in operators)
    if isinstance(parent, cst.ComparisonTarget):
        return not isinstance(parent.operator, (cst.Is, cst.IsNot, cst.Equal, cst.NotEqual))
    return isinstance(parent, (cst.Subscript, cst.BinaryOperation)) or (
        isinstance(parent, cst.Attribute) and parent.value is node
    )


def _profilers(context: Context) -> None:
    advice = "torch_xla.debug.profiler records what the XLA device does"
    for call, path in context.reached:
        if path in _PROFILERS and value_of(call, "use_cuda", 1) is not None and _left(context, call):
            context.plan.report(PROFILER, call, "there is nothing of CUDA's to record", advice)
    for node in context.index.all(cst.Attribute):
        if context.roles.path(node) == "torch.profiler.ProfilerActivity.CUDA" and _left(context, node):
            context.plan.report(PROFILER, node, "there is nothing of CUDA's to record", advice)
