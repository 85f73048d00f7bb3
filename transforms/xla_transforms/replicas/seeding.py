"""Whether each process of a program seeds torch's generators itself, whatever its options say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.replicas.reach import conditional
from xla_transforms.replicas.scripts import main_guard
from xla_transforms.roles.calls import callers

if TYPE_CHECKING:
    from xla_transforms.replicas import Replicas

HOST_SEEDS = frozenset(
    {
        "torch.manual_seed", "torch.random.manual_seed", "transformers.set_seed",
        "transformers.trainer_utils.set_seed", "accelerate.utils.set_seed", "monai.utils.set_determinism",
        "lightning.seed_everything", "lightning.pytorch.seed_everything", "pytorch_lightning.seed_everything",
        "pytorch_lightning.utilities.seed.seed_everything", "lightning_fabric.seed_everything",
    }
)  # fmt: skip
DEVICE_SEEDS = HOST_SEEDS | {"torch.cuda.manual_seed", "torch.cuda.manual_seed_all"}
_NAMES = frozenset(path.rpartition(".")[2] for path in DEVICE_SEEDS)


class Seeding:
    """The seeds of one program."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas, self.roles = replicas, replicas.roles

    def sure(self, paths: frozenset[str]) -> bool:
        """Whether a call of one of ``paths`` is made in each process in any case."""
        every = (c for name in _NAMES for c in self.roles.program.calls.get(name, ()))
        return any(self.roles.path(call.func) in paths and self._made_by_each(call) for call in every)

    def _made_by_each(self, call: cst.CSTNode) -> bool:
        """Whether each process comes to a call: no condition, and no process that starts others, holds it."""
        index = self.roles.index(call)
        function = index.function_of(call)
        if conditional(self.roles, call):
            return False
        if function is None:
            guard, parts = main_guard(index), [p for e in self.replicas.starts.entries for p in e.parts]
            inside = guard is not None and index.within(call, guard)
            return not inside or guard in parts
        if function in self.replicas.starts.launching:
            return False
        with self.roles.guarded(("seeds", function)) as free:
            sites = [site for site, _ in callers(self.roles, function)] if free else []
            return any(self._made_by_each(site) for site in sites) or function in self._started

    @property
    def _started(self) -> list[cst.FunctionDef | None]:
        return [launch.function for launch in self.replicas.starts.launches]
