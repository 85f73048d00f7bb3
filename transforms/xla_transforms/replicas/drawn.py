"""What each replica draws for itself, from a generator or from an environment it acts in.

Replicas draw alike where each seeds its generators with the same number, and act alike then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from xla_transforms.replicas.masters import values_behind
from xla_transforms.replicas.seeding import DEVICE_SEEDS
from xla_transforms.roles import Kind
from xla_transforms.roles.ranks import PLACES
from xla_transforms.tree import method, receiver, walk

if TYPE_CHECKING:
    from xla_transforms.replicas import Replicas

_DRAWS = {
    "torch": ("bernoulli", "multinomial", "normal", "rand", "rand_like", "randint", "randn", "randn_like"),
    "random": ("betavariate", "choice", "choices", "gauss", "randint", "random", "randrange", "uniform"),
    "numpy.random": ("beta", "choice", "normal", "permutation", "rand", "randint", "randn", "uniform"),
}
_SEEDS = {
    "torch": frozenset(path for path in DEVICE_SEEDS if path.startswith("torch.")),
    "random": frozenset({"random.seed"}),
    "numpy.random": frozenset({"numpy.random.seed"}),
}
_ALL_SEEDS = frozenset(path for path in DEVICE_SEEDS if not path.startswith("torch."))
_FAR = 4  # variables and functions that are followed
_ENVIRONMENTS = ("envpool.", "gym.", "gymnasium.", "procgen.")


class Drawn:
    """Answers it for one program."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas, self.roles = replicas, replicas.roles

    def by(self, call: cst.Call) -> bool:
        """Whether a call gives each replica something of its own."""
        path, name, base = self.roles.path(call.func), method(call), receiver(call)
        library, _, drawn = path.rpartition(".")
        if path or base is None:
            return drawn in _DRAWS.get(library, ()) and self._differ(library)
        if name in ("sample", "rsample"):
            return self._made_by(base, ("torch.distributions.",)) and self._differ("torch")
        acts = name in ("step", "reset")
        return acts and self._made_by(base, _ENVIRONMENTS) and self._differ("torch")

    def _made_by(self, node: cst.BaseExpression, packages: tuple[str, ...], depth: int = 0) -> bool:
        """Whether a package made an object, be it behind the program's own functions."""
        if depth > _FAR:
            return False
        if not isinstance(node, cst.Call):
            return any(self._made_by(v, packages, depth + 1) for v in values_behind(self.replicas, node))
        if self.roles.path(node.func).startswith(packages):
            return True
        functions = [f.node for f in self.roles.facts(node.func) if f.kind is Kind.FUNCTION]
        exits = [e for f in functions if isinstance(f, cst.FunctionDef) for e in self.roles.exits(f)]
        returned = [e.value for e in exits if isinstance(e, cst.Return) and e.value is not None]
        return any(self._made_by(value, packages, depth + 1) for value in returned)

    def _differ(self, library: str) -> bool:
        """Whether replicas draw otherwise than one another: unseeded, or seeded by their rank."""
        return self.roles.remembered(("draws", library), lambda: self._seeded_apart(library))

    def _seeded_apart(self, library: str) -> bool:
        if library == "torch" and not self.replicas.native:
            return False  # they get a seed where they have none
        wanted = _SEEDS[library] | _ALL_SEEDS
        named = (c for p in wanted for c in self.roles.program.calls.get(p.rpartition(".")[2], ()))
        seeds = [c for c in named if self.roles.path(c.func) in wanted]
        return not seeds or any(self._ranked(arg.value) for c in seeds for arg in c.args)

    def _ranked(self, node: cst.CSTNode, depth: int = 0) -> bool:
        """Whether a number is computed from the rank."""
        for part in walk(node) if depth <= _FAR else ():
            if not isinstance(part, cst.BaseExpression):
                continue
            behind = values_behind(self.replicas, part)
            if self.replicas.number(part) in PLACES or any(self._ranked(v, depth + 1) for v in behind):
                return True
        return False
