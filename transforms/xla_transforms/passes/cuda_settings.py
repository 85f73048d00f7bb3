"""CUDA settings: switches of cuDNN, TF32 and the CUDA environment, which nothing reads any more.

Source: pytorch v2.9, ``torch/backends/cudnn``, ``torch/backends/cuda``: they change CUDA's kernels alone.
TF32-like control on XLA is ``torch_xla.backends.set_mat_mul_precision`` (pytorch/xla v2.9.0, backends.py).
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.statements import bare, has_call, leave_with, live_calls, migrating
from xla_transforms.tree import method, receiver, string_value, walk

SETTING = Rule(
    "XLA204",
    "cuda-setting",
    "Switches of cuDNN, TF32 and CUDA's allocator go away.",
    "They change CUDA's kernels alone; XLA chooses its own.",
)
ENVIRONMENT = Rule(
    "XLA208",
    "cuda-environment",
    "Environment variables that only CUDA reads go away.",
    "CUDA_VISIBLE_DEVICES and its kin mean nothing to the XLA runtime, which PJRT_DEVICE chooses.",
)
RULES = (SETTING, ENVIRONMENT)

_PLACES = ("torch.backends.cudnn.", "torch.backends.cuda.")
_KEPT = ("torch.backends.cuda.is_built", "torch.backends.cuda.sdp_kernel")
_VARIABLES = ("CUDA_", "PYTORCH_CUDA_", "PYTORCH_NO_CUDA_", "CUBLAS_", "CUDNN_", "TORCH_CUDNN_")


def run(context: Context) -> None:
    if not migrating(context):
        return
    for node in context.index.all(cst.Assign):
        assert isinstance(node, cst.Assign)
        if not context.plan.taken(node) and not context.roles.dead(node):
            _assignment(context, node)
    for call, path in live_calls(context):
        if path.startswith(_PLACES) and not path.startswith(_KEPT):
            _call(context, call)
        elif path == "os.environ.setdefault" or path == "os.putenv":
            _environment(context, call, call.args[0].value if call.args else None)


def _assignment(context: Context, node: cst.Assign) -> None:
    targets = [t.target for t in node.targets]
    if all(_is_setting(context, target) for target in targets):
        if not has_call(node.value) or _only_asks(context, node.value):
            change = context.plan.change(SETTING, node, "it only concerns CUDA's kernels")
            change.remove(node)
    elif len(targets) == 1 and isinstance(targets[0], cst.Subscript):
        place = targets[0]
        if context.roles.path(place.value) == "os.environ" and isinstance(place.slice[0].slice, cst.Index):
            _environment(context, node, place.slice[0].slice.value)


def _is_setting(context: Context, target: cst.BaseExpression) -> bool:
    return any(path.startswith(_PLACES) for path in context.roles.spelled(target))


def _only_asks(context: Context, value: cst.BaseExpression) -> bool:
    calls = [c for c in walk(value) if isinstance(c, cst.Call)]
    return all(context.roles.path(c.func).startswith("torch.") for c in calls)


def _call(context: Context, call: cst.Call) -> None:
    """``torch.backends.cuda.enable_flash_sdp(True)``; ``with torch.backends.cudnn.flags(...):``."""
    statement, item = bare(context, call), context.index.parent(call)
    if statement is not None:
        change = context.plan.change(SETTING, call, "it only concerns CUDA's kernels")
        change.remove(statement)
    elif isinstance(item, cst.WithItem) and method(call) == "flags" and item.asname is None:
        change = context.plan.change(SETTING, item, "it only concerns CUDA's kernels")
        leave_with(context, change, item)


def _environment(context: Context, node: cst.CSTNode, key: cst.BaseExpression | None) -> None:
    name = string_value(key) or ""
    statement = node if isinstance(node, cst.Assign) else bare(context, node)
    if not name.startswith(_VARIABLES) or statement is None:
        return
    if isinstance(node, cst.Assign) and has_call(node.value) and not _text(node.value):
        return
    change = context.plan.change(ENVIRONMENT, node, f"only CUDA reads {name}")
    change.remove(statement)
    context.plan.report(ENVIRONMENT, node, f"only CUDA reads {name}: it is no longer set", fixed=True)


def _text(value: cst.BaseExpression) -> bool:
    """Whether a value is only brought into text: ``str(args.gpu)``, ``",".join(gpus)``."""
    if not isinstance(value, cst.Call):
        return False
    base = receiver(value)
    return isinstance(value.func, cst.Name) or isinstance(base, cst.SimpleString)
