"""Models that ``FullyShardedDataParallel`` parts among processes: what becomes of them, and what hinders it.

A program is written anew as a whole or not at all: every name of FSDP in it has to be understood. What a
replica holds of a parameter differs between the two libraries; so what looks at parts is an obstacle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from xla_transforms.fsdp.options import Unclear, Wrap, followed, is_optimizer, named_in, read, symbol
from xla_transforms.fsdp.references import Reference, references
from xla_transforms.roles import Roles
from xla_transforms.roles.calls import callers
from xla_transforms.roles.catalog import DISTRIBUTED_DATA_PARALLEL, FULLY_SHARDED, MODEL_METHODS_SAME
from xla_transforms.roles.facts import Kind
from xla_transforms.scopes import Binding, How, ModuleIndex, parameters
from xla_transforms.tree import argument, given, has_star, method, receiver, value_of
from xla_transforms.wrappers import Wrappers

__all__ = ["Sharded", "Unclear", "Wrap"]

WRAPPER = "FullyShardedDataParallel"
SCALER = "ShardedGradScaler"
_FULL = "StateDictType.FULL_STATE_DICT"
_STATES = ("FullStateDictConfig", "FullOptimStateDictConfig")
_OTHERS = (
    "fully_shard", "register_fsdp_forward_method", "FSDPModule",
)  # fmt: skip
_OWN_PARTS = (
    "each replica saves and loads its own parts: optimizer.state_dict() with model.state_dict() and "
    "model.get_shard_metadata(), on as many replicas as before"
)
_WHOLE = (
    "torch_xla's wrapper gives whole parameters to forward() alone: save each replica's parts with "
    "model.get_shard_metadata(), and join them by "
    "torch_xla.distributed.fsdp.consolidate_sharded_model_checkpoints"
)
_INSTEAD = {
    **dict.fromkeys(
        (
            "optim_state_dict", "optim_state_dict_to_load", "full_optim_state_dict",
            "sharded_optim_state_dict", "scatter_full_optim_state_dict", "shard_full_optim_state_dict",
            "rekey_optim_state_dict", "flatten_sharded_optim_state_dict",
        ),
        _OWN_PARTS,
    ),
    "summon_full_params": _WHOLE,
}  # fmt: skip


@dataclass(frozen=True)
class State:
    """``model.state_dict()`` of a sharded model, which gave whole parameters to each process."""

    call: cst.Call
    model: cst.BaseExpression


class Sharded:
    """The sharded models of one program; ``scales`` tells that gradient scalers stay."""

    def __init__(self, roles: Roles, scales: bool, target: str) -> None:
        self.roles, self.scales, self.target = roles, scales, target
        self.wrappers = Wrappers(roles, FULLY_SHARDED)
        self.wraps: list[Wrap] = []
        self.states: list[State] = []
        self.contexts: list[cst.Call] = []  # of FSDP.state_dict_type and set_state_dict_type
        self.types: list[cst.CSTNode] = []  # where the class is only named: isinstance, annotations
        self._understood: set[cst.CSTNode] = set()

    @cached_property
    def references(self) -> list[Reference]:
        return references(self.roles)

    @cached_property
    def obstacle(self) -> Unclear | None:
        """What hinders writing the program anew; ``None`` also where there is nothing to be written."""
        if not self.references:
            return None
        try:
            self._read()
        except Unclear as unclear:
            return unclear
        return None

    @cached_property
    def active(self) -> bool:
        """Whether the program shards models, and all of it is understood."""
        return bool(self.references) and self.obstacle is None

    def _read(self) -> None:
        first = self.references[0]
        if not self.target:
            raise Unclear(first.node, "the target's releases are not known to train with it")
        newer = next((r for r in self.references if r.symbol in _OTHERS), None)
        if newer is not None:
            raise Unclear(newer.node, "fully_shard changes a model in its place, into DTensors")
        if not self.wrappers.calls:
            raise Unclear(first.node, "no call that wraps a model is seen")
        self.wraps = [read(self.roles, call) for call in self.wrappers.calls]
        for wrap in self.wraps:
            self._understood.add(wrap.call.func)
            for value in wrap.values:
                self._understood |= named_in(value)
        self._beside()
        written = self._written_on_device()
        if written is not None:
            raise Unclear(written, "weights may be written on the device, which the new wrapper does not see")
        self._saved()
        self._named()

    def _calls(self, name: str) -> Iterator[cst.Call]:
        return (c for c in self.roles.program.calls.get(name, ()) if not self.roles.dead(c))

    def _beside(self) -> None:
        """What goes with a sharded model and would mean something else, or nothing, on the other side."""
        if Wrappers(self.roles, DISTRIBUTED_DATA_PARALLEL).calls:
            raise Unclear(self.wraps[0].call, "other models are wrapped in DistributedDataParallel")
        for name in ("clip_grad_norm_", "clip_grad_norm"):
            for call in self._calls(name):
                if self.roles.path(call.func).startswith("torch."):
                    raise Unclear(call, "it clips by the norm of a process's own parts")
        for index in self.roles.program.modules.values():
            for node in (*index.attributed("grad"), *index.attributed("module")):
                if self._looks_inside(index, node):
                    raise Unclear(node, f".{node.attr.value} is another one there than before")

    def _written_on_device(self) -> cst.CSTNode | None:
        """Where parameters may be written in place once they are on the device.

        torch_xla's wrapper goes on to compute with what was written, whatever its optimizer makes of it (run
        on torch_xla 2.9). A model that is made, loaded and filled on the CPU is none of these.
        """
        for call in self._calls("set_default_device"):
            return call
        modules = self.roles.program.modules.values()
        calls = [c for index in modules for c in index.all(cst.Call) if isinstance(c, cst.Call)]
        live = [call for call in calls if not self.roles.dead(call)]
        for call in live:
            placed = self.roles.path(call.func) == "torch.device"
            if placed and isinstance(self.roles.index(call).parent(call), cst.WithItem):
                return call
            if self.roles.is_a(call, Kind.MODEL) and given(call, "device") is not None:
                return call
        moved = any(method(c) in ("to", "cuda") and self.roles.is_a(receiver(c), Kind.MODEL) for c in live)
        return next(filter(self._writes, live), None) if moved else None

    def _writes(self, call: cst.Call) -> bool:
        """Whether a call fills the parameters of a model that has been made already."""
        base = receiver(call)
        if method(call) in ("load_state_dict", "apply"):
            return self.roles.may_be(base, Kind.MODEL) or not self.roles.kinds(base) - {Kind.UNKNOWN}
        fills = self.roles.path(call.func).startswith("torch.nn.init.")
        return fills and self.roles.index(call).class_of(call) is None

    def _looks_inside(self, index: ModuleIndex, node: cst.Attribute) -> bool:
        if node.attr.value == "module":
            return self.holds(node.value) is not False
        parent = index.parent(node)
        sets = isinstance(parent, cst.AssignTarget)
        asks = isinstance(parent, cst.Comparison) or self.roles.path(node).startswith("torch.")
        return not (sets or asks or self.roles.dead(node))

    def _saved(self) -> None:
        for name in ("state_dict", "load_state_dict"):
            for call in self._calls(name):
                base = receiver(call)
                held = self.holds(base) if base is not None else False
                if is_optimizer(self.roles, base):
                    raise Unclear(call, "an optimizer's state is that of a process's own parts", _OWN_PARTS)
                if held is None:
                    raise Unclear(call, f"{name}() is that of a sharded model on some ways alone")
                if held and name == "load_state_dict":
                    raise Unclear(call, "whole parameters are loaded into a model before it is wrapped")
                if held and (call.args or _acts(base)):
                    raise Unclear(call, "it is not seen what is saved of the sharded model")
                if held and base is not None:
                    self.states.append(State(call, base))

    def _named(self) -> None:
        """Every other name of FSDP."""
        for ref in self.references:
            if ref.node in self._understood:
                continue
            parent = self.roles.index(ref.node).parent(ref.node)
            if ref.symbol == SCALER and not self.scales:
                continue
            if ref.symbol == WRAPPER and self._only_named(ref.node):
                self.types.append(ref.node)
            elif isinstance(parent, cst.Call) and self._sets_type(parent, ref):
                self.contexts.append(parent)
            elif ref.node not in self._understood and not self._configures(ref):
                advice = _INSTEAD.get(ref.symbol.rpartition(".")[2], "")
                raise Unclear(ref.node, f"{ref.symbol} is used in a way that has no counterpart", advice)

    def _only_named(self, node: cst.CSTNode) -> bool:
        index = self.roles.index(node)
        parent = index.parent(node)
        call = index.parent(parent) if isinstance(parent, cst.Arg) else None
        asked = isinstance(call, cst.Call) and self.roles.path(call.func) == "builtins.isinstance"
        return isinstance(parent, cst.Annotation) or (asked and len(call.args) == 2)  # type: ignore[union-attr]

    def _sets_type(self, call: cst.Call, ref: Reference) -> bool:
        """``FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, config)``."""
        name, called = ref.symbol, call.func is ref.node and not has_star(call)
        if not called or name not in (f"{WRAPPER}.state_dict_type", f"{WRAPPER}.set_state_dict_type"):
            return False
        index = self.roles.index(call)
        parent = index.parent(call)
        fits = isinstance(parent, cst.Expr if name.endswith("set_state_dict_type") else cst.WithItem)
        kind = value_of(call, "state_dict_type", 1)
        if not fits or kind is None or symbol(self.roles, followed(self.roles, kind)) != _FULL:
            raise Unclear(call, "only FULL_STATE_DICT has a counterpart")
        if isinstance(parent, cst.WithItem) and parent.asname is not None:
            return False
        for arg in call.args:
            self._understood |= named_in(arg.value) | named_in(followed(self.roles, arg.value))
        return True

    def _configures(self, ref: Reference) -> bool:
        """``policy = FullStateDictConfig(...)``, given to ``state_dict_type`` alone."""
        if ref.symbol not in (*_STATES, _FULL, *("StateDictType",)):
            return False
        return any(self._leads_to(call, ref.node) for name in ("state_dict_type", "set_state_dict_type")
                   for call in self._calls(name))  # fmt: skip

    def _leads_to(self, call: cst.Call, node: cst.CSTNode) -> bool:
        return any(node in named_in(followed(self.roles, arg.value)) for arg in call.args)

    @property
    def settings(self) -> list[cst.Name]:
        """The variables that only told the native wrapper, or its contexts, something."""
        given = [
            arg.value
            for wrap in self.wraps
            for arg in wrap.call.args
            if arg.value not in (wrap.module, wrap.keywords.get("auto_wrap_policy"))
        ]
        given += [arg.value for call in self.contexts for arg in call.args[1:]]
        return [value for value in given if isinstance(value, cst.Name)]

    def holds(self, node: cst.BaseExpression, seen: frozenset[cst.CSTNode] = frozenset()) -> bool | None:
        """Whether an expression is a sharded model; ``None`` where that is one of several answers."""
        if node in seen:
            return False
        if self.wrappers.makes(node):
            return True
        parts = [self.holds(value, seen | {node}) for value in self._sources(node)]
        answers = set(parts)
        return answers.pop() if len(answers) == 1 else None if answers else False

    def _sources(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        if isinstance(node, cst.Call):
            base = receiver(node)
            same = base is not None and method(node) in MODEL_METHODS_SAME
            return [base] if same and base is not None else self._returned(node)
        if isinstance(node, cst.IfExp):
            return [node.body, node.orelse]
        if isinstance(node, cst.Name):
            return [v for binding in self.roles.bindings(node) for v in self._given(binding)]
        if isinstance(node, cst.Attribute):
            found = self.roles.program.attributes.get(node.attr.value, ())
            return [b.value for b in found if b.value is not None and not b.path]
        return []

    def _returned(self, node: cst.Call) -> list[cst.BaseExpression]:
        functions = (f.node for f in self.roles.facts(node.func) if isinstance(f.node, cst.FunctionDef))
        exits = (e for function in functions for e in self.roles.exits(function))
        return [e.value for e in exits if isinstance(e, cst.Return) and e.value is not None]

    def _given(self, binding: Binding) -> Iterator[cst.BaseExpression]:
        function = binding.statement
        if binding.how is not How.PARAMETER or not isinstance(function, cst.FunctionDef):
            if binding.value is not None and not binding.path:
                yield binding.value
            return
        position = next(i for i, p in enumerate(parameters(function)) if p is binding.node)
        name = parameters(function)[position].name.value
        for site, taken in callers(self.roles, function):
            arg = argument(site, name, position - taken)
            if arg is not None:
                yield arg.value


def _acts(node: cst.BaseExpression | None) -> bool:
    return not isinstance(node, (cst.Name, cst.Attribute))
