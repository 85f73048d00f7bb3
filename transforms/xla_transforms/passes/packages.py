"""Packages that only run on CUDA: each place that uses one is named, with what to take instead.

Source: the packages' own documentation; pytorch/xla v2.9.0, ``torch_xla/experimental/custom_kernel.py``
(Pallas kernels, flash attention) and ``docs/source/learn/pytorch-on-xla-devices.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.scopes import Binding, How
from xla_transforms.statements import migrating

PACKAGE = Rule(
    "XLA951",
    "cuda-package",
    "The script imports a package that only runs on CUDA.",
    "Its kernels are CUDA code: importing it or calling it fails on a machine without CUDA.",
    Severity.ERROR,
    Safety.DISPLAY,
)
OPTIONAL = Rule(
    "XLA952",
    "cuda-package-optional",
    "The script can do without a package that only runs on CUDA.",
    "The import is tried, and a machine without CUDA takes the other way.",
    Severity.INFO,
    Safety.DISPLAY,
)
RULES = (PACKAGE, OPTIONAL)

_DOCS = "https://docs.pytorch.org/docs/stable"
_XLA = "https://docs.pytorch.org/xla/release/r2.9"
_ATTENTION = f"{_DOCS}/generated/torch.nn.functional.scaled_dot_product_attention.html"
_SDPA = f"torch.nn.functional.scaled_dot_product_attention: {_ATTENTION}"
_PALLAS = f"{_XLA}/features/pallas.html"
_MEMORY = "{memory} tells how much memory is used"
_ADVICE = {
    "apex": f"torch.autocast, torch.optim and torch.nn do the same: {_DOCS}/amp.html; apex.parallel is not "
    "needed on one device",
    "flash_attn": f"{_SDPA}; on TPU torch_xla's own kernel: {_PALLAS}",
    "flash_attn_interface": _SDPA,
    "xformers": _SDPA,
    "bitsandbytes": f"torch.optim for its optimizers ({_DOCS}/optim.html); its quantised layers have no "
    "counterpart",
    "nvidia": "torchvision's transforms and a DataLoader with workers: "
    "https://docs.pytorch.org/vision/stable/transforms.html",
    "triton": f"plain tensor operations, which XLA fuses by itself; Pallas on TPU: {_PALLAS}",
    "torch.utils.cpp_extension": "plain tensor operations, which XLA fuses by itself",
    "pycuda": "plain tensor operations",
    "cupy": "numpy on the host, or plain tensor operations",
    "numba.cuda": "plain tensor operations",
    "transformer_engine": f"torch.autocast in bfloat16 and plain torch.nn layers: {_XLA}/perf/amp.html",
    "deepspeed": f"torch.optim on one device; FSDP of torch_xla on several: {_XLA}/perf/fsdp.html",
    "tensorrt": "XLA compiles the model by itself",
    "torch_tensorrt": "XLA compiles the model by itself",
    "pynvml": _MEMORY,
    "nvidia_smi": _MEMORY,
    "py3nvml": _MEMORY,
    "GPUtil": _MEMORY,
    "gpustat": _MEMORY,
    "nvtx": "torch_xla.debug.profiler.Trace names a range",
    "cudf": "pandas",
    "cuml": "scikit-learn",
    "ffcv": "a DataLoader with workers",
    "mamba_ssm": "the plain PyTorch scan of the model",
    "causal_conv1d": "torch.nn.Conv1d with padding",
}


def run(context: Context) -> None:
    if not (migrating(context) or context.frameworks.trains):
        return
    told: set[cst.CSTNode] = set()
    for binding in _imports(context):
        package = _package(binding.name)
        if package is None or binding.statement in told or context.roles.dead(binding.statement):
            continue
        if context.plan.taken(binding.statement):
            continue
        if _replaced(context, binding):
            continue
        told.add(binding.statement)
        rule = OPTIONAL if _tried(context, binding.statement) else PACKAGE
        advice = _ADVICE[package].replace("{memory}", context.target.memory_info.shown())
        context.plan.report(rule, binding.statement, f"{package} only runs on CUDA", advice)


def _imports(context: Context) -> Iterator[Binding]:
    for scope in context.index.scopes.values():
        for bindings in scope.bindings.values():
            yield from (b for b in bindings if b.how is How.IMPORT)


def _replaced(context: Context, binding: Binding) -> bool:
    """Whether all that uses an import is written anew."""
    name = getattr(binding.node, "asname", None) or getattr(binding.node, "name", None)
    name = getattr(name, "name", name)
    uses = context.index.named(name.value) if isinstance(name, cst.Name) else []
    uses = [n for n in uses if not context.index.within(n, binding.statement)]
    ours = binding.name.partition(".")[0] == "apex" or binding.name.startswith("deepspeed.ops.adam")
    return ours and bool(uses) and all(map(context.plan.taken, uses))


def _package(path: str) -> str | None:
    """The CUDA-only package that an imported path belongs to."""
    found = (name for name in _ADVICE if path == name or path.startswith(f"{name}."))
    return max(found, key=len, default=None)


def _tried(context: Context, statement: cst.CSTNode) -> bool:
    """Whether the script goes on without the package."""
    for parent in context.index.ancestors(statement):
        if isinstance(parent, cst.Try):
            return any(not _raises(handler) for handler in parent.handlers)
    return False


def _raises(handler: cst.ExceptHandler) -> bool:
    statements = getattr(handler.body, "body", ())
    last = statements[-1] if statements else None
    return isinstance(last, cst.SimpleStatementLine) and any(isinstance(s, cst.Raise) for s in last.body)
