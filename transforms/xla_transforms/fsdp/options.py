"""What the options of a ``FullyShardedDataParallel`` become as those of the wrapper of torch_xla.

Sources: PyTorch 2.9, ``torch/distributed/fsdp/fully_sharded_data_parallel.py`` and ``api.py``; pytorch/xla
v2.9.0, ``torch_xla/distributed/fsdp/xla_fully_sharded_data_parallel.py`` and ``wrap.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import libcst as cst

from xla_transforms.fsdp.references import symbol_of
from xla_transforms.roles import Roles
from xla_transforms.roles.facts import Kind
from xla_transforms.scopes import How
from xla_transforms.tree import argument, has_star, value_of, walk

POLICIES = frozenset(
    f"{name}_policy"
    for name in ("size_based_auto_wrap", "transformer_auto_wrap", "lambda_auto_wrap", "always_wrap")
)
MODULE_POLICY = "ModuleWrapPolicy"
_POSITIONS = (
    "module", "process_group", "sharding_strategy", "cpu_offload", "auto_wrap_policy", "backward_prefetch",
    "mixed_precision", "ignored_modules", "param_init_fn", "device_id", "sync_module_states",
    "forward_prefetch", "limit_all_gathers", "use_orig_params", "ignored_states", "device_mesh",
)  # fmt: skip
_PRECISION = (
    "param_dtype", "reduce_dtype", "buffer_dtype", "keep_low_precision_grads", "cast_forward_inputs",
    "cast_root_forward_inputs",
)  # fmt: skip
_SAME = ("backward_prefetch", "device_id", "forward_prefetch", "limit_all_gathers", "use_orig_params")
_NONE = ("process_group", "ignored_modules", "param_init_fn", "ignored_states", "device_mesh")
_HALVES = ("torch.bfloat16", "torch.float16", "torch.half")
_FULL = ("torch.float32", "torch.float")
_HYBRID = (
    "choose FULL_SHARD, or SHARD_GRAD_OP for _HYBRID_SHARD_ZERO2: parameters are then parted among all "
    "replicas, not within each host alone, and train to the same numbers"
)
_INSTEAD = {
    "NO_SHARD": "wrap the model in DistributedDataParallel: it trains to the same numbers, and is migrated",
    "HYBRID_SHARD": _HYBRID,
    "_HYBRID_SHARD_ZERO2": _HYBRID,
}


class Unclear(Exception):
    """What stands in the way of writing a construct anew: the node, why, and what to write where that is not
    what is told of FSDP altogether."""

    def __init__(self, node: cst.CSTNode, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.node, self.reason, self.advice = node, reason, advice


@dataclass
class Wrap:
    """One call that shards a model.

    ``keywords`` are options of the new wrapper: a text, or the expression whose text it is; ``written`` has
    the argument that each comes from. ``told`` are things that become otherwise,
    ``values`` the expressions that the options were read from, ``policy`` the policy's function or class.
    """

    call: cst.Call
    module: cst.BaseExpression
    keywords: dict[str, str | cst.BaseExpression] = field(default_factory=dict)
    written: dict[str, cst.Arg] = field(default_factory=dict)
    told: list[tuple[cst.CSTNode, str, str]] = field(default_factory=list)
    values: list[cst.BaseExpression] = field(default_factory=list)
    policy: cst.BaseExpression | None = None


def read(roles: Roles, call: cst.Call) -> Wrap:
    """The options of one call. Raises :class:`Unclear`."""
    module = value_of(call, "module", 0)
    if has_star(call) or module is None:
        raise Unclear(call, "its options are not seen here")
    wrap = Wrap(call, module)
    for position, name in enumerate(_POSITIONS[1:], 1):
        arg = argument(call, name, position)
        if arg is not None:
            before = set(wrap.keywords)
            _OPTIONS[name](roles, wrap, name, arg.value)
            wrap.written |= dict.fromkeys([n for n in wrap.keywords if n not in before], arg)
    unknown = [a for a in call.args if a.keyword is not None and a.keyword.value not in _POSITIONS]
    if unknown:
        raise Unclear(unknown[0], "this option is not known")
    return wrap


def followed(roles: Roles, value: cst.BaseExpression) -> cst.BaseExpression:
    """The expression that a variable was given, where that is one; else the expression itself."""
    found = roles.bindings(value) if isinstance(value, cst.Name) else []
    if len(found) == 1 and found[0].how is How.ASSIGN and not found[0].path and found[0].value is not None:
        return found[0].value
    return value


def symbol(roles: Roles, node: cst.CSTNode) -> str:
    """What an expression names of FSDP, empty for nothing of it."""
    return symbol_of(roles.path(node))


def _is(value: cst.BaseExpression, *words: str) -> bool:
    return isinstance(value, cst.Name) and value.value in words


def _same(roles: Roles, wrap: Wrap, name: str, value: cst.BaseExpression) -> None:
    wrap.values.append(value)


def _none(roles: Roles, wrap: Wrap, name: str, value: cst.BaseExpression) -> None:
    if not _is(value, "None"):
        raise Unclear(value, f"{name}= has no counterpart")


def _strategy(roles: Roles, wrap: Wrap, name: str, value: cst.BaseExpression) -> None:
    chosen = followed(roles, value)
    wrap.values += [value, chosen]
    strategy = symbol(roles, chosen)
    if strategy == "ShardingStrategy.SHARD_GRAD_OP":
        wrap.keywords["reshard_after_forward"] = "False"
    elif strategy != "ShardingStrategy.FULL_SHARD" and not _is(chosen, "None"):
        reason = "only FULL_SHARD and SHARD_GRAD_OP have a counterpart as sharding_strategy="
        raise Unclear(value, reason, _INSTEAD.get(strategy.rpartition(".")[2], ""))


def _offload(roles: Roles, wrap: Wrap, name: str, value: cst.BaseExpression) -> None:
    made = followed(roles, value)
    wrap.values += [value, made]
    if _is(made, "None"):
        return
    if not isinstance(made, cst.Call) or symbol(roles, made.func) != "CPUOffload" or has_star(made):
        raise Unclear(value, "it is not seen whether parameters are offloaded to the CPU")
    asked = value_of(made, "offload_params", 0)
    if asked is not None and not _is(asked, "False"):
        advice = "see that the shards fit: more replicas, or compute_dtype=torch.bfloat16"
        wrap.told.append((value, "parameters are not offloaded to the CPU: they stay on the device", advice))


def _policy(roles: Roles, wrap: Wrap, name: str, value: cst.BaseExpression) -> None:
    chosen = followed(roles, value)
    if _is(chosen, "None"):
        return
    function = chosen
    if isinstance(chosen, cst.Call) and chosen.args and not has_star(chosen):
        partial = roles.path(chosen.func) == "functools.partial"
        function = chosen.args[0].value if partial else chosen.func
    named = symbol(roles, function)
    if named not in POLICIES and not (named == MODULE_POLICY and function is not chosen):
        raise Unclear(value, "this auto_wrap_policy= is not one of torch.distributed.fsdp.wrap's functions")
    wrap.policy = function
    wrap.keywords["auto_wrap_policy"] = value
    wrap.values += [function]


def _synchronised(roles: Roles, wrap: Wrap, name: str, value: cst.BaseExpression) -> None:
    if not _is(value, "False"):
        raise Unclear(value, "sync_module_states= writes weights on the device: seed all alike instead")


def _precision(roles: Roles, wrap: Wrap, name: str, value: cst.BaseExpression) -> None:
    made = followed(roles, value)
    if _is(made, "None"):
        wrap.values.append(value)
        return
    if not isinstance(made, cst.Call) or symbol(roles, made.func) != "MixedPrecision" or has_star(made):
        raise Unclear(value, "it is not seen what mixed_precision= is")
    fields = {name: value_of(made, name, i) for i, name in enumerate(_PRECISION)}
    known = len([v for v in fields.values() if v is not None]) == len(made.args)
    if not known or not _plain(fields["keep_low_precision_grads"], "False"):
        raise Unclear(made, "this MixedPrecision has no counterpart")
    if not _plain(fields["cast_root_forward_inputs"], "True"):
        raise Unclear(made, "inputs are always cast to compute_dtype=")
    wrap.values += [value, made]
    _dtypes(roles, wrap, made, {name: fields[f"{name}_dtype"] for name in ("param", "reduce", "buffer")})


def _plain(value: cst.BaseExpression | None, word: str) -> bool:
    return value is None or _is(value, word)


def _dtypes(
    roles: Roles, wrap: Wrap, made: cst.Call, given: dict[str, cst.BaseExpression | None]
) -> None:
    low = {name: _low(roles, value) for name, value in given.items()}
    if low["param"]:
        wrap.keywords["compute_dtype"] = "torch.bfloat16"
        if not low["buffer"]:  # they would follow compute_dtype, and natively did not
            wrap.keywords["buffer_dtype"] = "torch.float32"
        if given["reduce"] is not None and not _is(given["reduce"], "None") and not low["reduce"]:
            wrap.keywords["fp32_reduce_scatter"] = "True"
    else:
        if low["buffer"]:
            wrap.keywords["buffer_dtype"] = "torch.bfloat16"
        if low["reduce"]:
            wrap.told.append((made, "gradients are reduced in float32, as they are computed", ""))
    if any(name == "torch.float16" for name in low.values()):
        wrap.told.append((made, "float16 becomes bfloat16: XLA devices compute in that", ""))
    if low["param"] and "auto_wrap_policy" in wrap.keywords and roles.program.mentions("BatchNorm"):
        advice = "give such layers a wrapper of their own with compute_dtype=torch.float32"
        wrap.told.append((made, "BatchNorm layers, kept in float32 before, compute in bfloat16", advice))


def _low(roles: Roles, value: cst.BaseExpression | None) -> str:
    """The 16-bit type that an expression names, empty for float32 or none."""
    path = roles.path(value)
    if path in _HALVES:
        return "torch.float16" if path == "torch.half" else path
    if value is not None and not _is(value, "None") and path not in _FULL:
        raise Unclear(value, "it is not seen which type this is")
    return ""


_OPTIONS: dict[str, Callable[[Roles, Wrap, str, cst.BaseExpression], None]] = {
    "sharding_strategy": _strategy,
    "cpu_offload": _offload,
    "auto_wrap_policy": _policy,
    "sync_module_states": _synchronised,
    "mixed_precision": _precision,
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_NONE, _none),
}


def named_in(value: cst.BaseExpression) -> set[cst.CSTNode]:
    """The names and attributes that an expression consists of."""
    return {node for node in walk(value) if isinstance(node, (cst.Name, cst.Attribute))}


def is_optimizer(roles: Roles, node: cst.BaseExpression | None) -> bool:
    """Whether an expression may be an optimizer."""
    return node is not None and Kind.OPTIMIZER in roles.kinds(node)
