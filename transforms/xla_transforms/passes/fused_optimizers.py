"""Fused optimizers of apex and DeepSpeed become torch's that compute the same, if every argument is known.

``FusedAdam`` by default is AdamW's way of decaying weights, and no decay; torch's ``AdamW`` decays by 0.01.
Source: NVIDIA apex, ``apex/optimizers/fused_adam.py``, ``fused_sgd.py``; DeepSpeed v0.18,
``deepspeed/ops/adam/fused_adam.py``, which takes the same; pytorch v2.9, ``torch/optim``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.tree import has_star

FUSED = Rule(
    "XLA409",
    "apex-optimizer",
    "FusedAdam of apex or DeepSpeed becomes torch's AdamW that does not decay, or Adam; FusedSGD its SGD.",
    "On CUDA alone; by default FusedAdam is AdamW that does not decay (apex, optimizers/fused_adam.py).",
)
RULES = (FUSED,)


@dataclass(frozen=True)
class _Twin:
    """What an optimizer takes by position alike, what by name, and what says nothing to torch's.

    The latter by the values for which that is so.
    """

    positions: tuple[str, ...]
    kept: frozenset[str]
    dropped: Mapping[str, tuple[str, ...]]


_EITHER = ("True", "False")
_ADAM = _Twin(
    ("params", "lr"),  # behind lr they stand in another order
    frozenset({"params", "lr", "betas", "eps", "weight_decay"}),
    {
        "bias_correction": ("True",),
        "adam_w_mode": _EITHER,
        "amsgrad": ("False",),
        "set_grad_none": _EITHER,
        "capturable": _EITHER,
        "master_weights": ("False",),
    },
)
_SGD_KEPT = ("params", "lr", "momentum", "dampening", "weight_decay", "nesterov")
_SGD = _Twin(
    _SGD_KEPT,
    frozenset(_SGD_KEPT),
    {"wd_after_momentum": ("False",), "materialize_master_grads": _EITHER, "set_grad_none": _EITHER},
)
_TWINS = {
    f"{home}.{module}{name}": (name, twin)
    for home, name, file, twin in (
        ("apex.optimizers", "FusedAdam", "fused_adam.", _ADAM),
        ("apex.optimizers", "FusedSGD", "fused_sgd.", _SGD),
        ("deepspeed.ops.adam", "FusedAdam", "fused_adam.", _ADAM),
    )
    for module in ("", file)
}


def run(context: Context) -> None:
    if not context.uses_cuda or not context.program.mentions("apex", "deepspeed"):
        return
    for call in list(context.index.all(cst.Call)):
        assert isinstance(call, cst.Call)
        named = context.roles.spelled(call.func)
        if len(named) != 1 or not named <= _TWINS.keys() or context.roles.dead(call):
            continue
        name, twin = _TWINS[next(iter(named))]
        if _understood(twin, call) and context.plan.free(call):
            _write(context, call, name, twin)


def _understood(twin: _Twin, call: cst.Call) -> bool:
    if has_star(call) or len([arg for arg in call.args if arg.keyword is None]) > len(twin.positions):
        return False
    return all(_keeps(twin, arg) or _value(arg) in twin.dropped.get(_name(arg), ()) for arg in call.args)


def _write(context: Context, call: cst.Call, fused: str, twin: _Twin) -> None:
    kept = [arg for arg in call.args if _keeps(twin, arg)]
    plain = any(_name(arg) == "adam_w_mode" and _value(arg) == "False" for arg in call.args)
    name = "SGD" if twin is _SGD else "Adam" if plain else "AdamW"
    parts = [f"{arg.keyword.value}={{{i}}}" if arg.keyword else f"{{{i}}}" for i, arg in enumerate(kept)]
    if name == "AdamW" and not any(_name(arg) == "weight_decay" for arg in kept):
        parts.append("weight_decay=0.0")
    change = context.plan.change(FUSED, call, f"{fused} computes as torch's {name} does")
    twins = context.syncfree_twins and name in context.target.syncfree
    home = change.use(context.target.syncfree_module) if twins else f"{change.use('torch')}.optim"
    change.replace(call, f"{home}.{name}({', '.join(parts)})", *(arg.value for arg in kept))


def _keeps(twin: _Twin, arg: cst.Arg) -> bool:
    return arg.keyword is None or arg.keyword.value in twin.kept


def _name(arg: cst.Arg) -> str:
    return arg.keyword.value if arg.keyword is not None else ""


def _value(arg: cst.Arg) -> str:
    return arg.value.value if isinstance(arg.value, cst.Name) else ""
