"""What a pass gets: one module, the shared analysis, the plan to add to, the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import libcst as cst

from xla_transforms.apex import Amp
from xla_transforms.frameworks import Frameworks
from xla_transforms.fsdp import Sharded
from xla_transforms.loops import Loops
from xla_transforms.loops.deferral import Deferral
from xla_transforms.placing import Placing, may_be_cpu, sharding, shares_several
from xla_transforms.plan import Plan
from xla_transforms.program import Program, names_cuda
from xla_transforms.replicas import Replicas
from xla_transforms.roles import Roles
from xla_transforms.roles.catalog import short
from xla_transforms.scalers import Group, find_groups
from xla_transforms.scopes import ModuleIndex
from xla_transforms.settings import Settings
from xla_transforms.targets import target
from xla_transforms.targets.base import Target
from xla_transforms.tree import value_of

T = TypeVar("T")


@dataclass
class Context:
    """One module under migration.

    ``migrated_apart`` are the paths of modules of its program that are migrated for other scripts.
    """

    index: ModuleIndex
    roles: Roles
    plan: Plan
    settings: Settings = field(default_factory=Settings)
    migrated_apart: tuple[str, ...] = ()

    @property
    def program(self) -> Program:
        return self.roles.program

    def once(self, question: Callable[[Context], T]) -> T:
        """The answer to a question about the whole program, which is the same for each of its modules."""
        return self.roles.remembered(question, lambda: question(self))

    @cached_property
    def target(self) -> Target:
        return target(self.settings.target)

    @cached_property
    def loops(self) -> Loops:
        """What the module's loops do."""
        return Loops(self.roles, self.index)

    @cached_property
    def placing(self) -> Placing:
        """Which variable holds the device at each place of the module."""
        return Placing(self)

    @property
    def scalers(self) -> list[Group]:
        """The gradient scalers of the program, each with all its uses."""
        return self.roles.remembered("scalers", lambda: find_groups(self.roles))

    @cached_property
    def apex(self) -> Amp:
        """The program's use of apex's mixed precision."""
        return self.roles.remembered("apex", lambda: Amp(self.roles))

    @property
    def replicas(self) -> Replicas:
        """The processes that the program trains in."""
        return Replicas.of(self.roles, self.settings.distributed, self.target)

    @cached_property
    def distributed(self) -> bool:
        """Whether the migrated module is a part of a program that trains in replicas."""
        return self.uses_cuda and self.replicas.active

    @cached_property
    def deferrals(self) -> list[Deferral]:
        """What becomes of the reads in each step loop; asked for once the loaders are decided."""
        return [
            Deferral(self.loops, loop, closures=not (loop.wrapped and may_be_cpu(self, loop.node)))
            for loop in self.loops.all
        ]

    @cached_property
    def reached(self) -> list[tuple[cst.Call, str]]:
        """Every call that was reached on CUDA, with the path (in its short form) of what it calls."""
        calls = [c for c in self.index.all(cst.Call) if isinstance(c, cst.Call) and not self.roles.dead(c)]
        return [(call, short(self.roles.path(call.func))) for call in calls]

    @property
    def frameworks(self) -> Frameworks:
        """The frameworks that train for the program."""
        return self.roles.remembered("frameworks", lambda: Frameworks(self.roles))

    @cached_property
    def already_xla(self) -> bool:
        """Whether the module's loops are finished: it imports torch_xla, or Accelerate prepares them."""
        return self.frameworks.prepares or any(
            binding.name.split(".")[0] == "torch_xla"
            for scope in self.index.scopes.values()
            for bindings in scope.bindings.values()
            for binding in bindings
        )

    @property
    def names_cuda(self) -> bool:
        """Whether anything in the program names CUDA (or torch's accelerator) as a place to compute."""
        return self.program.uses_cuda

    @property
    def sharded(self) -> Sharded:
        """The models of the program that FullyShardedDataParallel parts among processes."""
        scales, wrapper = self.target.has_grad_scaler, self.target.fully_sharded
        return self.roles.remembered("fully sharded", lambda: Sharded(self.roles, scales, wrapper))

    @property
    def parted(self) -> bool:
        """Whether the program parts a model among processes in a way that has no counterpart."""
        modules = self.program.modules.values()
        if self.roles.remembered("sharding", lambda: any(map(sharding, modules))):
            return True
        return bool(self.sharded.references) and not (self.sharded.active and self.replicas.active)

    @cached_property
    def uses_cuda(self) -> bool:
        """Whether the module computes on CUDA, on one device of it: what is made for several is left.

        Left as well is what another engine steps, and processes that nothing could start.
        """
        left = shares_several(self) or self.parted or self.frameworks.engine is not None
        return self.names_cuda and not left and not self.replicas.stranded

    @cached_property
    def speaks_of_gpu(self) -> bool:
        """Whether this module itself names CUDA or mixed precision, not only another one of its program."""
        amp = ("autocast", "GradScaler")
        calls = (c for name in amp for c in self._calls(name) if self.roles.index(c) is self.index)
        return names_cuda(self.index) or any(True for _ in calls)

    @cached_property
    def uses_amp(self) -> bool:
        """Whether the program computes under autocast or scales its loss."""
        calls = self._calls("autocast", "GradScaler")
        return self.roles.remembered("amp", lambda: any(map(self._is_amp, calls))) or self.apex.understood

    def _is_amp(self, call: cst.Call) -> bool:
        """Whether a call begins mixed precision: ``autocast(enabled=False)`` keeps something out of it."""
        off = getattr(value_of(call, "enabled"), "value", "") == "False"
        return not off and self.roles.path(call.func).startswith("torch.")

    @cached_property
    def syncfree_twins(self) -> bool:
        """Whether optimizers become their syncfree twins; those that Accelerate prepares are its own."""
        asked = self.settings.syncfree == "amp" and not self.frameworks.prepares
        beside_amp = asked and self.uses_amp and self.speaks_of_gpu
        return self.settings.syncfree == "always" or beside_amp

    def _calls(self, *names: str) -> list[cst.Call]:
        return [call for name in names for call in self.program.calls.get(name, ())]
