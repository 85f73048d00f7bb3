"""How a program trains in several processes: who starts them, what each runs, what says which one it is.

Asked on demand, of the whole program: one file may start the processes, another one hold what they run.
The analysis speaks of the native program alone; what the migrated one says in its place is the passes'.
"""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from xla_transforms.replicas.alone import Alone
from xla_transforms.replicas.averaging import Averaging
from xla_transforms.replicas.counts import Counts
from xla_transforms.replicas.decisions import Decisions
from xla_transforms.replicas.feeds import Feeds
from xla_transforms.replicas.groups import Groups
from xla_transforms.replicas.masters import Master, master_of
from xla_transforms.replicas.own_files import OwnFiles
from xla_transforms.replicas.reach import in_any_case
from xla_transforms.replicas.regions import Region
from xla_transforms.replicas.seeding import Seeding
from xla_transforms.replicas.starts import Entry, Launch, Starts, Style
from xla_transforms.roles import Roles
from xla_transforms.roles.catalog import DISTRIBUTED_DATA_PARALLEL
from xla_transforms.roles.facts import Kind, known
from xla_transforms.roles.ranks import INDEX, LOCAL_RANK, LOCAL_WORLD_SIZE, PLACES, RANK, SIZES, WORLD_SIZE
from xla_transforms.settings import Distributed
from xla_transforms.targets.base import Target
from xla_transforms.wrappers import Wrappers

__all__ = [
    "INDEX", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "PLACES", "RANK", "SIZES", "WORLD_SIZE", "Entry", "Launch",
    "Master", "Region", "Replicas", "Style",
]  # fmt: skip


class Replicas:
    """The processes of one program.

    ``wanted`` is the user's setting, ``outside`` the function that a launcher calls in each migrated process,
    ``scaling`` whether the target has a gradient scaler.
    """

    def __init__(
        self, roles: Roles, wanted: Distributed = "auto", outside: str = "", *, scaling: bool = False
    ) -> None:
        self.roles = roles
        self.wanted = wanted
        self.starts = Starts(roles, outside, scaling=scaling)
        self.counts = Counts(self.starts)
        self.groups = Groups(roles)
        self.averaging = Averaging(self)
        self.feeds = Feeds(self)
        self._masters: dict[cst.BaseExpression, Master | None] = {}
        self.seeding = Seeding(self)

    @staticmethod
    def of(roles: Roles, wanted: Distributed, target: Target) -> Replicas:
        """Those of a program, the same whoever asks."""
        outside, scaling = target.launcher_entry, target.has_grad_scaler
        return roles.remembered("replicas", lambda: Replicas(roles, wanted, outside, scaling=scaling))

    @property
    def native(self) -> bool:
        """Whether the native program trains in several processes that average their gradients."""
        return self.roles.program.replicated

    @property
    def asked(self) -> bool:
        """Whether the migrated program is to train in replicas."""
        return self.native if self.wanted == "auto" else bool(self.wanted)

    @cached_property
    def obstacle(self) -> str:
        """Why nothing can start replicas of the program; empty where something can."""
        return self.starts.obstacle

    @cached_property
    def stranded(self) -> bool:
        """Whether nothing can start replicas of a program that is one of several processes in any case.

        Half of it would train in none: all of it is left.
        """
        if not (self.native and self.asked and self.obstacle):
            return False
        joins = self.roles.program.calls.get("init_process_group", ())
        sites = [*(launch.call for launch in self.starts.launches), *joins]
        return any(in_any_case(self.roles, call) for call in sites)

    @cached_property
    def active(self) -> bool:
        """Whether the migrated program trains in replicas."""
        return self.asked and not self.obstacle

    @property
    def style(self) -> Style:
        """How the native processes come to be."""
        if self.starts.launches:
            return Style.SPAWN
        return Style.LAUNCHER if self.native else Style.SINGLE

    def number(self, node: cst.CSTNode | None) -> str:
        """Which rank or size an expression is (``RANK``, ``WORLD_SIZE`` ...); empty for none or for several.

        A constant beside it (what it is before, or without, the processes) does not count.
        """
        facts = known(self.roles.facts(node)) if node is not None else frozenset()
        if any(f.kind not in (Kind.NUMBER, Kind.ENVIRONMENT) for f in facts):
            return ""
        details = {self.meant(f.detail) for f in facts} - {""}
        return details.pop() if len(details) == 1 and details <= PLACES | SIZES else ""

    def meant(self, detail: str) -> str:
        """On one machine the number that spawn gives a process is its rank, their count the world size."""
        if self.starts.several_hosts or self.style is not Style.SPAWN:
            return LOCAL_RANK if detail == INDEX else detail
        return {INDEX: RANK, LOCAL_WORLD_SIZE: WORLD_SIZE}.get(detail, detail)

    def master(self, test: cst.BaseExpression) -> Master | None:
        """What a condition says of the master process; ``None`` where it does not ask for it."""
        if test not in self._masters:
            self._masters[test] = master_of(self, test)
        return self._masters[test]

    @cached_property
    def alone(self) -> Alone:
        """What the master does alone, though every replica must take part in it."""
        return Alone(self)

    @cached_property
    def own_files(self) -> OwnFiles:
        """Which files each replica has for itself."""
        return OwnFiles(self)

    @cached_property
    def decisions(self) -> Decisions:
        """Which values are a replica's own."""
        return Decisions(self)

    @cached_property
    def wrappers(self) -> Wrappers:
        """The ``DistributedDataParallel`` of the program."""
        return Wrappers(self.roles, DISTRIBUTED_DATA_PARALLEL)
