"""Data loaders: what each feeds, what parts its data among the replicas, how its epochs are told apart.

Source: pytorch v2.9, ``torch/utils/data/distributed.py`` (``set_epoch``) and ``dataloader.py`` (a sampler
excludes ``shuffle``); pytorch/xla#7904: a device loader does not part the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.loops import Loops
from xla_transforms.loops.effects import Effect
from xla_transforms.replicas.epochs import Epoch, Epochs
from xla_transforms.replicas.keywords import keys_given, only_here, spread
from xla_transforms.roles import Kind
from xla_transforms.roles.calls import callers
from xla_transforms.roles.classes import bases, find_method
from xla_transforms.roles.elsewhere import text_at
from xla_transforms.roles.facts import known
from xla_transforms.roles.ranks import RANK
from xla_transforms.roles.structure import loaders_behind
from xla_transforms.scopes import Scope
from xla_transforms.tree import COMPREHENSIONS, LOOPS, argument, has_star, string_value, value_of, walk

if TYPE_CHECKING:
    from xla_transforms.replicas import Replicas

LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})
SAMPLERS = frozenset(
    f"torch.utils.data.{module}DistributedSampler" for module in ("", "distributed.")
)
# What a DistributedSampler with the same ``shuffle`` gives as well, on one replica.
PLAIN = {
    f"torch.utils.data.{module}{name}": shuffles
    for module in ("", "sampler.")
    for name, shuffles in (("RandomSampler", True), ("SequentialSampler", False))
}
_CASED = (cst.Lambda, cst.IfExp, *COMPREHENSIONS)


@dataclass(eq=False)
class Feed:
    """A call that makes a data loader, the loops that go through it, and those whose steps draw from it."""

    call: cst.Call
    trains: bool = False
    evaluates: bool = False
    loops: list[tuple[cst.For, cst.BaseExpression]] = field(default_factory=list)
    steps: list[cst.CSTNode] = field(default_factory=list)


class Feeds:
    """The data loaders of one program."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas = replicas
        self.roles = replicas.roles
        self.epochs = Epochs(self.roles)

    @cached_property
    def all(self) -> dict[cst.Call, Feed]:
        """Every loader that the program makes."""
        calls = [c for found in self.roles.program.calls.values() for c in found]
        made = {c: Feed(c) for c in calls if self.roles.path(c.func) in LOADERS and not self.roles.dead(c)}
        for index in self.roles.program.modules.values() if made else ():
            for loop in Loops(self.roles, index).all:
                trains = bool(loop.effect & (Effect.BACKWARD | Effect.STEP))
                for feed in self._drawn(loop.node, made):
                    feed.steps.append(loop.node)
                    feed.trains |= trains
                    feed.evaluates |= not trains
            for node in index.all(cst.For):
                assert isinstance(node, cst.For)
                for loader in loaders_behind(self.roles, node.iter):
                    for feed in self._origins(loader, made):
                        feed.loops.append((node, loader))
        return made

    def _drawn(self, loop: cst.For | cst.While, made: dict[cst.Call, Feed]) -> Iterator[Feed]:
        """The loaders that a step loop draws from, by iterating or by ``next``."""
        if isinstance(loop, cst.For):
            for loader in loaders_behind(self.roles, loop.iter):
                yield from self._origins(loader, made)
        for node in walk(loop.body, into_functions=False):
            if isinstance(node, cst.Call) and self.roles.path(node.func) == "builtins.next" and node.args:
                for loader in loaders_behind(self.roles, node.args[0].value):
                    yield from self._origins(loader, made)

    def _origins(self, loader: cst.BaseExpression, made: dict[cst.Call, Feed]) -> Iterator[Feed]:
        for origin in self.roles.origins(loader, Kind.LOADER):
            if isinstance(origin, cst.Call) and origin in made:
                yield made[origin]

    # ---- what parts the data

    def shared(self, call: cst.Call) -> bool:
        """Whether a loader has a ``DistributedSampler``, be it only where there are several processes."""
        sampler = value_of(call, "sampler", 3)
        details = {f.detail for f in known(self.roles.facts(sampler))} if sampler is not None else set()
        return bool(details & SAMPLERS) or any(self.derived(c) for c in self._classes(sampler))

    def _classes(self, node: cst.BaseExpression | None) -> list[cst.ClassDef]:
        facts = self.roles.facts(node) if node is not None else ()
        return [f.node for f in facts if isinstance(f.node, cst.ClassDef)]

    def derived(self, node: cst.ClassDef) -> bool:
        """Whether a class of the program is a ``DistributedSampler``."""
        return any(isinstance(base, str) and base in SAMPLERS for base in bases(self.roles, node))

    def iterable(self, call: cst.Call) -> bool:
        """Whether a loader's data set is gone through as it comes and has no places to sample."""
        data = value_of(call, "dataset", 0)
        for item in self.roles.facts(data) if data is not None else ():
            if item.detail.endswith("IterableDataset"):
                return True
            if isinstance(item.node, cst.ClassDef):
                found = bases(self.roles, item.node)
                if any(isinstance(b, str) and b.endswith("IterableDataset") for b in found):
                    return True
            streaming = value_of(item.node, "streaming") if isinstance(item.node, cst.Call) else None
            if isinstance(streaming, cst.Name) and streaming.value == "True":
                return True
        return False

    def parts_itself(self, call: cst.Call) -> bool:
        """Whether a loader's data set, a class of the program, asks for the rank."""
        return any(self._asks_for_rank(c) for c in self._classes(value_of(call, "dataset", 0)))

    def _asks_for_rank(self, node: cst.ClassDef) -> bool:
        kinds = (cst.Call, cst.Name, cst.Attribute, cst.Subscript)
        values = (n for n in walk(node.body) if isinstance(n, kinds))
        return any(self.replicas.number(value) == RANK for value in values)

    def plain_sampler(self, call: cst.Call) -> cst.Call | None:
        """The ``RandomSampler(data)`` or ``SequentialSampler(data)`` that this loader alone has."""
        given = value_of(call, "sampler", 3)
        made = given
        if isinstance(given, cst.Name):
            bindings, index = self.roles.bindings(given), self.roles.index(given)
            values = [b.value for b in bindings]
            uses = index.named_of(index.scope_of(given).owner(given.value), given.value)
            made = values[0] if len(values) == 1 and len(uses) == 2 else None
        if not isinstance(made, cst.Call) or self.roles.path(made.func) not in PLAIN:
            return None
        whole = len(made.args) == 1 and not has_star(made)
        return made if whole else None

    def refusal(self, feed: Feed) -> str:
        """Why a loader of a program of one process cannot get a ``DistributedSampler``; empty if it can."""
        call = feed.call
        if self.iterable(call):
            return "its data set is an iterable one, which cannot be sampled"
        if feed.evaluates and self._called_often(call):
            return "the same call makes loaders for training and for evaluation"
        if has_star(call) and not self.spread(call):
            return "not all of its arguments are seen"
        if argument(call, "batch_sampler", 4) is not None:
            return "it has a batch sampler of its own"
        sampler = value_of(call, "sampler", 3)
        own = sampler is not None and not (isinstance(sampler, cst.Name) and sampler.value == "None")
        if own and self.plain_sampler(call) is None:
            return "it has a sampler of its own"
        if self.replicas.starts.before(call):
            return "it is made before there are replicas"
        around = self.roles.index(call).ancestors(call)
        first = next((a for a in around if isinstance(a, (cst.BaseStatement, *_CASED))), None)
        if not isinstance(first, cst.SimpleStatementLine) or argument(call, "dataset", 0) is None:
            return "there is no line of its own to make a sampler at"
        return ""

    def _called_often(self, call: cst.Call) -> bool:
        """Whether a call runs for several loaders: in a function that is called more than once."""
        function = self.roles.index(call).function_of(call)
        return function is not None and len(callers(self.roles, function)) > 1

    def spread(self, call: cst.Call) -> str:
        """The dictionary that gives a loader its arguments and may be changed; empty where there is none."""
        keys, name = keys_given(self.roles, call), spread(call)
        if name is None or keys is None or {"sampler", "batch_sampler"} & keys:
            return ""
        if "shuffle" in keys and not only_here(self.roles, call):
            return ""
        return name.value

    @cached_property
    def parted(self) -> dict[cst.Call, Feed]:
        """The training loaders of a program of one process that get a ``DistributedSampler``."""
        if self.replicas.native or not self.replicas.active:
            return {}
        return {c: f for c, f in self.all.items() if f.trains and not self.refusal(f)}

    # ---- how epochs are told apart

    def shuffles(self, call: cst.Call) -> bool:
        """Whether the order may change from epoch to epoch."""
        plain = self.plain_sampler(call)
        if plain is not None:
            return PLAIN[self.roles.path(plain.func)]
        if self.spread(call) and "shuffle" in (keys_given(self.roles, call) or ()):
            return True
        given = value_of(call, "shuffle", 2)
        return given is not None and not (isinstance(given, cst.Name) and given.value == "False")

    def epochs_of(self, feed: Feed) -> list[Epoch]:
        """The loops over epochs that go through a loader; without those that make the loader anew."""
        found = [e for loop, loader in feed.loops for e in self.epochs.around(loop, loader)]
        first: dict[cst.CSTNode, Epoch] = {}
        for epoch in found:
            first.setdefault(epoch.loop, epoch)
        return list(first.values())

    def scope(self, call: cst.Call) -> Scope | None:
        """The scope of the one name that a line gives to a loader; its sampler has one there too."""
        index = self.roles.index(call)
        assign = index.parent(call)
        line = index.parent(assign) if assign is not None else None
        if not isinstance(assign, cst.Assign) or not isinstance(line, cst.SimpleStatementLine):
            return None
        target = assign.targets[0].target
        single = len(assign.targets) == 1 and len(line.body) == 1
        return index.scope_of(target).owner(target.value) if single and isinstance(target, cst.Name) else None

    def by_name(self, feed: Feed, epoch: Epoch) -> bool:
        """Whether the sampler's own variable is at hand in a loop over epochs."""
        scope, name = self.scope(feed.call), epoch.name
        within = self.plain_sampler(feed.call) is not None and value_of(feed.call, "sampler", 3)
        if isinstance(within, cst.Call):  # made among the loader's arguments
            return False
        if scope is None or not epoch.loader or not isinstance(name, cst.Name):
            return False
        index = self.roles.index(name)
        return index is self.roles.index(feed.call) and index.scope_of(name).owner(name.value) is scope

    @cached_property
    def kept(self) -> set[cst.Call]:
        """The loaders that keep their name, because their sampler is reached through them."""
        return {
            call
            for call, feed in self.parted.items()
            if self.shuffles(call)
            for epoch in self.epochs_of(feed)
            if epoch.loader and not self.by_name(feed, epoch)
        } | {c for c, f in self.parted.items() if self.shuffles(c) and any(self.renewed(f))}

    def sampler_name(self, call: cst.Call) -> str:
        """The variable for the sampler of a loader: ``train_sampler`` for ``train_loader``."""
        plain, index = self.plain_sampler(call), self.roles.index(call)
        given = value_of(call, "sampler", 3)
        if plain is not None and isinstance(given, cst.Name):
            return given.value
        assign = index.parent(call)
        target = assign.targets[0].target if isinstance(assign, cst.Assign) else None
        word = string_value(assign.key) if isinstance(assign, cst.DictElement) else None
        if isinstance(target, cst.Attribute):
            word = target.attr.value
        elif isinstance(target, cst.Name):
            word = target.value
        stem = (word or "").removesuffix("dl").removesuffix("loader").removesuffix("_")
        named = stem.isidentifier() and stem != "data"
        return self._free(call, f"{stem}_sampler" if named else "sampler")

    def data_name(self, call: cst.Call) -> str:
        """The variable for a data set that is made among the arguments of its loader."""
        stem = self.sampler_name(call).removesuffix("_").removesuffix("sampler")
        return self._free(call, f"{stem}data" if stem else "dataset")

    def _free(self, call: cst.Call, name: str) -> str:
        bound = {n for scope in self.roles.index(call).scopes.values() for n in scope.bindings}
        while name in bound:
            name += "_"
        return name

    def renewed(self, feed: Feed) -> Iterator[tuple[cst.CSTNode, str]]:
        """The statements that start over in a loop, ``it = iter(loader)``, with the loader's name there."""
        for call in self.roles.program.calls.get("iter", ()):
            loaders = loaders_behind(self.roles, call.args[0].value) if len(call.args) == 1 else []
            if len(loaders) != 1 or feed.call not in self.roles.origins(loaders[0], Kind.LOADER):
                continue
            index = self.roles.index(call)
            inside = any(isinstance(a, LOOPS) for a in index.statements(call))
            statement, name = index.statement_of(call), text_at(self.roles, loaders[0], call)
            if inside and name and isinstance(statement, cst.SimpleStatementLine):
                yield statement, name

    def inherits(self, node: cst.ClassDef) -> bool:
        """Whether a class of the program is a ``DistributedSampler`` that is made as its parent is."""
        return self.derived(node) and find_method(self.roles, node, "__init__") is None
