"""apex's ``FusedLayerNorm`` becomes ``torch.nn.LayerNorm``, which takes the same arguments.

Source: NVIDIA apex, ``apex/normalization/fused_layer_norm.py``; pytorch v2.9, ``torch/nn/modules``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.tree import has_star

LAYER = Rule(
    "XLA410",
    "apex-layer-norm",
    "apex's FusedLayerNorm becomes torch.nn.LayerNorm.",
    "Its kernel runs on CUDA alone; what it computes is the same (apex, normalization/fused_layer_norm.py).",
)
RULES = (LAYER,)

_PATHS = frozenset(
    f"apex.normalization.{module}FusedLayerNorm" for module in ("", "fused_layer_norm.")
)
_KEPT = ("normalized_shape", "eps", "elementwise_affine")
_OUTER = (cst.Attribute, cst.ImportAlias, cst.AsName, cst.AssignTarget)


def run(context: Context) -> None:
    if not context.uses_cuda or not context.program.mentions("FusedLayerNorm"):
        return
    for node in list(context.index.all(cst.Name, cst.Attribute)):
        outer = context.index.parent(node)
        named = context.roles.spelled(node)
        if isinstance(outer, _OUTER) or not named or not named <= _PATHS or context.roles.dead(node):
            continue
        call = outer if isinstance(outer, cst.Call) and outer.func is node else None
        gone = _gone(call) if call is not None else []
        if gone is not None and context.plan.free(node):
            change = context.plan.change(LAYER, node, "torch.nn.LayerNorm computes the same")
            change.replace(node, f"{change.use('torch')}.nn.LayerNorm")
            if call is not None and gone:
                change.drop(list(call.args), gone)


def _gone(call: cst.Call) -> list[cst.Arg] | None:
    """The arguments that torch's layer does not take; ``None`` where one of the call's is not known."""
    named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    plain = [arg for arg in call.args if arg.keyword is None]
    if has_star(call) or len(plain) > len(_KEPT) or not named <= {*_KEPT, "memory_efficient"}:
        return None
    return [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "memory_efficient"]
