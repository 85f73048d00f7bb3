"""Operators that torch_xla has the CPU compute: the device computes what they need first, and waits for them.

Nothing is rewritten: another operator is another model. Which operators these are is the target's to say.
Source: pytorch/xla, "Troubleshooting", the counters ``aten::*``; each counted on torch_xla 2.9.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.loops.hot import HotPath
from xla_transforms.statements import migrating
from xla_transforms.tree import method, receiver

ON_HOST = Rule(
    "XLA906",
    "operator-on-host",
    "A layer or function is computed by the CPU, because torch_xla has no operator for it.",
    "What it needs is computed and fetched first: one more execution for its forward and one for its "
    "backward pass (pytorch/xla troubleshooting, counters aten::*).",
    Severity.WARNING,
    Safety.DISPLAY,
)
RULES = (ON_HOST,)

_ADVICE = {
    "EmbeddingBag": "nn.Embedding, and the sum or mean of its rows",
    "HuberLoss": "nn.SmoothL1Loss(beta=delta) times delta, which has an operator",
    "GLU": "a * b.sigmoid() with a, b = x.chunk(2, dim)",
    "embedding_bag": "F.embedding, and the sum or mean of its rows",
    "huber_loss": "F.smooth_l1_loss(beta=delta) times delta, which has an operator",
    "glu": "a * b.sigmoid() with a, b = x.chunk(2, dim)",
    "logaddexp": "torch.logsumexp over the stacked tensors",
    "weight_norm": "no weight normalisation, or one written out with torch.linalg.vector_norm",
}
_OTHERWISE = "write it with other operators, or take it out of the training loop"


def run(context: Context) -> None:
    if not migrating(context):
        return
    for call in context.index.all(cst.Call):
        if isinstance(call, cst.Call) and _is_layer(context, call) and not context.roles.dead(call):
            _report(context, call, context.roles.path(call.func).rpartition(".")[2])
    for call, name in _computed(context):
        _report(context, call, name)


def _is_layer(context: Context, call: cst.Call) -> bool:
    path = context.roles.path(call.func)
    layer = path.rpartition(".")[2][:1].isupper() or path.startswith("torch.nn.utils.")
    return layer and path in context.target.on_host


def _computed(context: Context) -> Iterator[tuple[cst.Call, str]]:
    """The calls of every step, functions and methods of tensors."""
    for call in HotPath(context.loops).nodes(cst.Call):
        assert isinstance(call, cst.Call)
        path = context.roles.path(call.func)
        tensors = [receiver(call)] if not path else [arg.value for arg in call.args]
        path = path or f"torch.{method(call)}"
        known = path in context.target.on_host and not _is_layer(context, call)
        if known and any(context.loops.reads.on_device(tensor) for tensor in tensors):
            yield call, path.rpartition(".")[2]


def _report(context: Context, call: cst.Call, name: str) -> None:
    message = f"{name} is computed by the CPU: torch_xla {context.target.name} has no operator for it"
    context.plan.report(ON_HOST, call, message, _ADVICE.get(name, _OTHERWISE))
