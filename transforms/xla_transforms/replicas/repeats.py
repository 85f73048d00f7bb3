"""What a program did once, in the process that started the others, and now does in each of them.

A launcher outside of the script starts all processes alike. What only reads the command line, counts
devices or seeds comes out the same in each; of anything else it is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

import libcst as cst

from xla_transforms.replicas.reach import called
from xla_transforms.replicas.scripts import METHODS
from xla_transforms.roles import Kind, Roles
from xla_transforms.roles.fold import FALSE_ON_CUDA, TRUE_ON_CUDA
from xla_transforms.roles.ranks import COUNTS
from xla_transforms.roles.spawns import CONTEXTS, SPAWNERS
from xla_transforms.tree import method, receiver, value_of, walk

_ALIKE = (
    "argparse.", "builtins.", "collections.", "copy.", "dataclasses.", "functools.", "json.", "logging.",
    "math.", "os.cpu_count", "os.environ.", "os.getenv", "os.path.", "pathlib.", "random.seed", "re.",
    "numpy.random.seed", "sys.", "time.perf_counter", "time.time", "torch.backends.", "torch.cuda.",
    "torch.accelerator.", "torch.device", "torch.manual_seed", "torch.multiprocessing.set_", "types.",
    "typing.", "warnings.", "yaml.safe_load",
    "multiprocessing.cpu_count", "multiprocessing.set_", "torch.multiprocessing.cpu_count",
    *TRUE_ON_CUDA, *FALSE_ON_CUDA, *COUNTS, *SPAWNERS, *CONTEXTS,
)  # fmt: skip
_ONCE = frozenset(
    {*(f"builtins.{name}" for name in ("eval", "exec", "input", "open")), "json.dump", "os.environ.pop"}
)


class Repeats:
    """Goes through ``parts``, which each process runs, and the functions called there, but for ``own``.

    ``gone`` are statements that are not run any more.
    """

    def __init__(
        self,
        roles: Roles,
        parts: Sequence[cst.CSTNode],
        own: Collection[cst.FunctionDef | None],
        gone: Collection[cst.CSTNode] = (),
    ) -> None:
        self.roles, self.parts, self.own, self.gone = roles, parts, own, gone

    @cached_property
    def obstacle(self) -> cst.Call | None:
        """The first call that is not known to do in each process what it did in one."""
        return next((call for call in self._calls if not self._alike(call)), None)

    @cached_property
    def prints(self) -> list[cst.Call]:
        """What is printed, now once by each process."""
        return [c for c in self._calls if self.roles.path(c.func) == "builtins.print"]

    @cached_property
    def _calls(self) -> list[cst.Call]:
        found: dict[cst.Call, None] = {}
        seen: set[cst.FunctionDef] = set()
        waiting = list(self.parts)
        while waiting:
            for call in self._live(waiting.pop(0)):
                found[call] = None
                inner = [f for f in called(self.roles, call) if f not in seen and f not in self.own]
                seen.update(inner)
                waiting += [function.body for function in inner]
        return list(found)

    def _live(self, part: cst.CSTNode) -> Iterator[cst.Call]:
        calls = (n for n in walk(part, into_functions=False) if isinstance(n, cst.Call))
        return (call for call in calls if not self.roles.dead(call) and not self._gone(call))

    def _gone(self, call: cst.Call) -> bool:
        return bool(self.gone) and not set(self.gone).isdisjoint(self.roles.index(call).ancestors(call))

    def _alike(self, call: cst.Call) -> bool:
        path, base = self.roles.path(call.func), receiver(call)
        if path in ("os.makedirs", "os.mkdir"):
            return getattr(value_of(call, "exist_ok", 2), "value", "") == "True"
        if path.startswith(_ALIKE):
            return path not in _ONCE
        if any(isinstance(f.node, (cst.FunctionDef, cst.ClassDef)) for f in self.roles.facts(call.func)):
            return True
        if base is None:
            return False
        return bool(self.roles.kinds(base) & {Kind.PARSER, Kind.ARGUMENTS}) or method(call) in METHODS
