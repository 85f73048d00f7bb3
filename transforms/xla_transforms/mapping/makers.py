"""The things that a program makes, and the calls that do something with them, each with its role."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

import libcst as cst

from xla_transforms.mapping.parts import Part, Place
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.catalog import DISTRIBUTED_DATA_PARALLEL
from xla_transforms.roles.classes import role_of
from xla_transforms.roles.facts import Fact
from xla_transforms.roles.fold import IN_GROUP
from xla_transforms.roles.ranks import FUNCTIONS
from xla_transforms.saves import Saved, saved_by
from xla_transforms.tree import method, receiver, value_of

ROLES = {
    Kind.MODEL: "model",
    Kind.LOADER: "loader",
    Kind.SAMPLER: "sampler",
    Kind.OPTIMIZER: "optimizer",
    Kind.SCHEDULER: "scheduler",
    Kind.SCALER: "scaler",
    Kind.DEVICE: "device",
    Kind.WRITER: "writer",
}
_MADE_OF = {
    Kind.LOADER: (Kind.SAMPLER, Kind.DATASET, Kind.LOADER),
    Kind.OPTIMIZER: (Kind.PARAMETERS, Kind.OPTIMIZER),
    Kind.SCHEDULER: (Kind.OPTIMIZER,),
    Kind.SAMPLER: (Kind.SAMPLER,),
}
_STEPPED = (Kind.OPTIMIZER, Kind.SCALER, Kind.SCHEDULER)
_SAVES = frozenset(
    {"torch.save", "torch_xla.core.xla_model.save", "torch.jit.save", "safetensors.torch.save_file"}
)
_LOADS = frozenset({"torch.load", "safetensors.torch.load_file", "torch.jit.load"})
_LOGS = frozenset(
    {"add_scalar", "add_scalars", "log_metrics", "log_metric", "set_postfix", "set_description"}
)
_WIDTH = 72


class Makers:
    """The parts of one program, by the node that they stand at and by their numbers."""

    def __init__(self, roles: Roles, parts: dict[int, Part]) -> None:
        self.roles = roles
        self.parts = parts
        self.at: dict[cst.CSTNode, Part] = {}  # by the call
        self._by_node: dict[cst.CSTNode, list[int]] = defaultdict(list)
        every = [c for index in roles.program.modules.values() for c in index.all(cst.Call)]
        calls = [c for c in every if isinstance(c, cst.Call) and not roles.dead(c)]
        made = [(call, fact) for call in calls for fact in self._made(call)]
        for call, fact in made:
            self._add(call, self._role(fact), fact)
        for call, fact in made:  # only now is all known that they may be made of
            self._connect(call, fact)
        for call in calls:
            if call not in self.at:
                self._act(call)

    def origins(self, node: cst.CSTNode | None, *kinds: Kind) -> tuple[int, ...]:
        """The parts that may arrive in an expression, as some of the kinds."""
        facts = self.roles.facts(node) if node is not None else ()
        nodes = [f.node for f in facts if f.node is not None and (not kinds or f.kind in kinds)]
        return tuple(sorted({i for n in nodes for i in self._by_node.get(n, ())}))

    def place(self, node: cst.CSTNode) -> Place:
        source = self.roles.index(node).source
        span = source.span(node)
        return Place(source.path, span.line, span.column)

    def _made(self, call: cst.Call) -> Iterator[Fact]:
        """What a call makes anew: a thing of torch, or an instance of a class of the program."""
        classes = {f.node for f in self.roles.facts(call.func) if f.kind is Kind.CLASS}
        for fact in self.roles.facts(call):
            new = fact.node is call or fact.node in classes
            if new and fact.kind in ROLES and not (fact.kind is Kind.MODEL and self._layer(call)):
                yield fact
                return

    def _layer(self, call: cst.Call) -> bool:
        """Whether a module is made as a part of another one."""
        index = self.roles.index(call)
        for outer in index.ancestors(call):
            if isinstance(outer, cst.ClassDef):
                return role_of(self.roles, outer) is Kind.MODEL
            if isinstance(outer, cst.Call) and self.roles.may_be(outer, Kind.MODEL) and not method(outer):
                return True
        return False

    def _role(self, fact: Fact) -> str:
        package, _, name = fact.detail.rpartition(".")
        loss = fact.kind is Kind.MODEL and package.startswith("torch.nn") and name.endswith("Loss")
        return "loss" if loss else ROLES[fact.kind]

    def _act(self, call: cst.Call) -> None:
        """Steps, backward passes, saves, loads, logs and collectives."""
        path, name = self.roles.path(call.func), method(call)
        base = receiver(call)
        if base is not None and name == "step":
            kinds = self.roles.kinds(base)
            if kinds & set(_STEPPED) or (not kinds - {Kind.NAME} and self._bare(call, base)):
                self._step(call, base, kinds)
        elif base is not None and name == "backward" and not path:
            self._add(call, "backward")
        elif path in _SAVES or (name == "save_pretrained" and not path):
            self._add(call, "save", detail=self._saved(call, path))
        elif path in _LOADS:
            self._add(call, "load", detail=path)
        elif path in DISTRIBUTED_DATA_PARALLEL:
            self._add(call, "wrapper", detail=path, uses=self._first(call, Kind.MODEL))
        elif path.startswith("torch.distributed.") and path.count(".") == 2:
            asks = path in FUNCTIONS or path in IN_GROUP
            self._add(call, "rank" if asks else "collective", detail=path)
        elif name in _LOGS or path in ("wandb.log", "mlflow.log_metric"):
            self._add(call, "log", detail=path or name)

    def _bare(self, call: cst.Call, base: cst.BaseExpression) -> bool:
        """Whether a step of something unknown may be one of training, not of an environment or a profile."""
        profiles = any(f.detail.startswith("torch.profiler.") for f in self.roles.facts(base))
        taken = (Kind.OPTIMIZER, Kind.FUNCTION)
        return not profiles and all(self.roles.kinds(arg.value) & set(taken) for arg in call.args)

    def _step(self, call: cst.Call, base: cst.BaseExpression, kinds: set[Kind]) -> None:
        uses = self.origins(base, *_STEPPED)
        if Kind.SCALER in kinds:
            uses += self.origins(value_of(call, "optimizer", 0), Kind.OPTIMIZER)
        detail = next((k.value for k in _STEPPED if k in kinds), "")
        self._add(call, "step", detail=detail, uses=uses)

    def _saved(self, call: cst.Call, path: str) -> str:
        return saved_by(self.roles, call).value if path == "torch.save" else Saved.TENSORS.value

    def _first(self, call: cst.Call, kind: Kind) -> tuple[int, ...]:
        return self.origins(call.args[0].value, kind) if call.args else ()

    def _add(
        self, call: cst.Call, role: str, made: Fact | None = None, detail: str = "", uses: Iterable[int] = ()
    ) -> None:
        index = self.roles.index(call)
        function = index.function_of(call)
        owner = index.class_of(function) if function is not None else None
        names = [n.name.value for n in (owner, function) if n is not None]
        part = Part(
            len(self.parts) + 1, role, self.place(call), ".".join(names), text_of(self.roles, call),
            self._target(call), detail or (made.detail if made is not None else ""),
            tuple(dict.fromkeys(uses)),
        )  # fmt: skip
        self.parts[part.id] = self.at[call] = part
        if made is not None:
            self._by_node[call].append(part.id)
            if made.node is not None and made.node is not call:
                self._by_node[made.node].append(part.id)

    def _connect(self, call: cst.Call, made: Fact) -> None:
        """Note what a thing is made of: a loader of its sampler, an optimizer of a model's parameters."""
        wanted = _MADE_OF.get(made.kind)
        uses = [i for arg in call.args if wanted for i in self.origins(arg.value, *wanted)]
        if uses:
            part = replace(self.at[call], uses=tuple(dict.fromkeys(uses)))
            self.parts[part.id] = self.at[call] = part

    def _target(self, call: cst.Call) -> str:
        """What the thing is assigned to, be it after a move: ``model = Net().to(device)``."""
        index = self.roles.index(call)
        for outer in index.ancestors(call):
            if isinstance(outer, cst.Assign):
                return text_of(self.roles, outer.targets[0].target)
            if isinstance(outer, cst.AnnAssign):
                return text_of(self.roles, outer.target)
            if isinstance(outer, (cst.BaseStatement, cst.BaseSmallStatement)):
                return ""
        return ""

def text_of(roles: Roles, node: cst.CSTNode) -> str:
    """What is written at a node, on one line of bearable length."""
    text = " ".join(roles.index(node).source.code(node).split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
