"""The optimizers and modules of a running script: who holds which parameter, under which name."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from xla_migrate.verify import measure
from xla_migrate.verify.hooks import after
from xla_migrate.verify.shards import plain_name, shards_in
from xla_migrate.verify.trace import Shard

_WRAPPERS = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)


class Models:
    """Notes every optimizer and module as it is made.

    ``outermost`` are the modules that hold an optimizer's parameters and are part of no other such
    module, in the order in which optimizers asked for them. Every parameter of a new optimizer is
    changed by the relative size ``perturb``.
    """

    def __init__(self, perturb: float = 0.0) -> None:
        self.perturb = perturb
        self.optimizers: list[torch.optim.Optimizer] = []
        self.outermost: list[torch.nn.Module] = []
        self._ids: set[int] = set()
        self._called: set[int] = set()
        self._all: list[weakref.ref[torch.nn.Module]] = []

    def install(self) -> None:
        """Hook into torch for the rest of the process, once."""
        after(torch.nn.Module, "__init__", lambda made, result, args: self._all.append(weakref.ref(made)))
        after(torch.optim.Optimizer, "__init__", self._optimizer_made)

    def is_outermost(self, module: torch.nn.Module) -> bool:
        """Whether a module is one of these; of one wrapped for several processes, what the wrapper holds: the
        script may call that without the wrapper."""
        return id(module) in self._called

    def number_of(self, optimizer: torch.optim.Optimizer) -> int:
        """Its place in the order of construction, -1 for one that was not seen."""
        return next((i for i, known in enumerate(self.optimizers) if known is optimizer), -1)

    def _optimizer_made(self, optimizer: Any, result: Any, args: Any) -> None:
        self.optimizers.append(optimizer)
        wanted = {id(parameter) for parameter in parameters_of(optimizer)}
        alive = [module for module in (ref() for ref in self._all) if module is not None]
        owners = [m for m in alive if any(id(parameter) in wanted for parameter in m.parameters())]
        inner = {id(child) for owner in owners for child in owner.modules() if child is not owner}
        self.outermost += [m for m in owners if id(m) not in inner | self._ids]
        self._note()
        if self.perturb:
            for parameter in parameters_of(optimizer):
                measure.perturb(parameter, self.perturb)

    def adopt_all(self) -> None:
        """Take every module with parameters for outermost that is part of no other: a script without an
        optimizer has its own way to change them."""
        made = (ref() for ref in self._all)
        alive = [m for m in made if m is not None and next(m.parameters(), None) is not None]
        inner = {id(child) for owner in alive for child in owner.modules() if child is not owner}
        self.outermost += [m for m in alive if id(m) not in inner]
        self._note()

    def _note(self) -> None:
        self._ids |= {id(module) for module in self.outermost}
        self._called |= {id(_wrapped(module)) for module in self.outermost}

    def state_of(self, module: torch.nn.Module) -> Iterable[tuple[str, torch.Tensor]]:
        """Parameters and buffers by the names they have in the model itself."""
        found = [*module.named_parameters(), *module.named_buffers()]
        return ((plain_name(name), tensor) for name, tensor in found)

    def names(self, groups: Sequence[Sequence[torch.Tensor]]) -> list[list[str]]:
        """The name of each parameter of each optimizer, empty for one that no model holds any more."""
        known: dict[int, str] = {}
        for module in self.outermost:
            for name, parameter in module.named_parameters():
                known.setdefault(id(parameter), plain_name(name))
        return [[known.get(id(parameter), "") for parameter in group] for group in groups]

    def shards(self, optimizer: torch.optim.Optimizer) -> list[Shard | None]:
        """The parts that this process holds of an optimizer's parameters, ``None`` for whole ones."""
        found = shards_in(module for module in (ref() for ref in self._all) if module is not None)
        return [found.get(id(parameter)) for parameter in parameters_of(optimizer)]

    def tied(self) -> list[list[str]]:
        """The groups of names under which one parameter is known."""
        found: list[list[str]] = []
        for module in self.outermost:
            by_id: dict[int, list[str]] = {}
            for name, parameter in module.named_parameters(remove_duplicate=False):
                by_id.setdefault(id(parameter), []).append(plain_name(name))
            found += [names for names in by_id.values() if len(names) > 1]
        return found


def _wrapped(module: torch.nn.Module) -> torch.nn.Module:
    while isinstance(module, _WRAPPERS):
        module = module.module
    return module


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterable[torch.Tensor]:
    """The parameters in the order of their groups."""
    return (parameter for group in optimizer.param_groups for parameter in group["params"])
