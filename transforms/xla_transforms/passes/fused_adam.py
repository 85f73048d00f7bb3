"""apex's ``FusedAdam`` becomes the optimizer of torch that computes the same, where every argument is known.

Its defaults are AdamW's way of decaying weights, and no decay; torch's ``AdamW`` decays by 0.01.
Source: NVIDIA apex, ``apex/optimizers/fused_adam.py``; pytorch v2.9, ``torch/optim/adamw.py``.
"""

from __future__ import annotations

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule
from xla_transforms.tree import has_star

FUSED_ADAM = Rule(
    "XLA409",
    "fused-adam",
    "apex's FusedAdam becomes torch's AdamW without weight decay, or Adam.",
    "It runs on CUDA alone; by default it is AdamW that does not decay (apex, optimizers/fused_adam.py).",
)
RULES = (FUSED_ADAM,)

_PATHS = ("apex.optimizers.FusedAdam", "apex.optimizers.fused_adam.FusedAdam")
_KEPT = frozenset({"params", "lr", "betas", "eps", "weight_decay"})
# What says nothing to torch's optimizers, by the values for which that is so.
_DROPPED = {
    "bias_correction": ("True",),
    "adam_w_mode": ("True", "False"),
    "amsgrad": ("False",),
    "set_grad_none": ("True", "False"),
    "capturable": ("True", "False"),
    "master_weights": ("False",),
}


def run(context: Context) -> None:
    if not context.uses_cuda:
        return
    for call in list(context.index.all(cst.Call)):
        assert isinstance(call, cst.Call)
        named = context.roles.spelled(call.func)
        if len(named) != 1 or not named <= set(_PATHS) or context.roles.dead(call):
            continue
        if _understood(call) and context.plan.free(call):
            _write(context, call)


def _understood(call: cst.Call) -> bool:
    positional = [arg for arg in call.args if arg.keyword is None]
    if has_star(call) or len(positional) > 2:  # behind lr they stand in another order
        return False
    return all(_name(arg) in _KEPT or _value(arg) in _DROPPED.get(_name(arg), ()) for arg in call.args)


def _write(context: Context, call: cst.Call) -> None:
    kept = [arg for arg in call.args if _name(arg) in _KEPT]
    plain = any(_name(arg) == "adam_w_mode" and _value(arg) == "False" for arg in call.args)
    name = "Adam" if plain else "AdamW"
    parts = [f"{arg.keyword.value}={{{i}}}" if arg.keyword else f"{{{i}}}" for i, arg in enumerate(kept)]
    if not plain and not any(_name(arg) == "weight_decay" for arg in kept):
        parts.append("weight_decay=0.0")
    change = context.plan.change(FUSED_ADAM, call, f"FusedAdam computes as torch's {name} does")
    twin = context.syncfree_twins and name in context.target.syncfree
    home = change.use(context.target.syncfree_module) if twin else f"{change.use('torch')}.optim"
    change.replace(call, f"{home}.{name}({', '.join(parts)})", *(arg.value for arg in kept))


def _name(arg: cst.Arg) -> str:
    """What an argument is given for; by position the parameters come first, then ``lr``."""
    return arg.keyword.value if arg.keyword is not None else "params"


def _value(arg: cst.Arg) -> str:
    return arg.value.value if isinstance(arg.value, cst.Name) else ""
