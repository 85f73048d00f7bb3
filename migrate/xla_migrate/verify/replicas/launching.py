"""Where a script starts its replicas, this process becomes one of them.

Until then it is alone, as on a real machine: ``torch_xla.launch``, ``xmp.spawn`` or a process group
on ``xla://`` make it one of many.
"""

from __future__ import annotations

import importlib
import os
import pickle
from collections.abc import Callable
from typing import Any

from xla_migrate.verify.replicas.meeting import ReplicaError
from xla_migrate.verify.replicas.starts import Starts


class Launching:
    """``started`` tells whether the script has started its replicas."""

    def __init__(self, rank: int, world: int, starts: Starts | None = None) -> None:
        self.rank, self.world, self.starts = rank, world, starts
        self.started = False
        self._originals: dict[str, Any] = {}

    def install(self) -> None:
        """Replace torch_xla's ways to start replicas."""
        torch_xla: Any = importlib.import_module("torch_xla")
        processes: Any = importlib.import_module("torch_xla.distributed.xla_multiprocessing")
        processes.spawn = self.spawn
        for name in ("torch_xla", "torch_xla.torch_xla"):
            module: Any = importlib.import_module(name)
            if hasattr(module, "launch"):
                module.launch = self.launch
        self._xla = torch_xla._XLAC

    def launch(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        start_method: str = "spawn",
        debug_single_process: bool = False,
    ) -> None:
        """In the place of ``torch_xla.launch``."""
        self.spawn(fn, args, 1 if debug_single_process else None, start_method=start_method)

    def spawn(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        nprocs: int | None = None,
        join: bool = True,
        daemon: bool = False,
        start_method: str = "spawn",
    ) -> None:
        """In the place of ``xmp.spawn``: what follows it in a script is for one process only."""
        if nprocs == 1:
            fn(0, *args)
            return
        if nprocs is not None:
            raise ValueError(f"Unsupported nprocs ({nprocs}): torch_xla takes 1 or None")
        initialized = getattr(self._xla, "_xla_runtime_is_initialized", None)  # 2.1 does not tell
        if initialized is not None and initialized() and not self.started:
            raise RuntimeError("Runtime is already initialized: an XLA device was used before the launch")
        if start_method == "spawn":
            pickle.dumps(fn)  # a nested function or a lambda fails here, as it would in torch_xla
        self.begin()
        if self.starts is not None:
            self.starts.begin()
        fn(self.rank, *args)
        self._end()
        if self.starts is not None:
            self.starts.wait()

    def begin(self) -> None:
        """From here on this process is one replica of many."""
        self.started = True
        os.environ.update(
            PJRT_LOCAL_PROCESS_RANK=str(self.rank), PJRT_LOCAL_PROCESS_COUNT=str(self.world)
        )
        runtime: Any = importlib.import_module("torch_xla.runtime")
        model: Any = importlib.import_module("torch_xla.core.xla_model")
        sizes = ("world_size", "global_device_count", "process_count", "xrt_world_size")
        ranks = ("global_ordinal", "local_ordinal", "process_index", "get_ordinal", "get_local_ordinal")
        for names, value in ((sizes, self.world), (ranks, self.rank)):
            for name in names:
                for module in (runtime, model):
                    self._answer(module, name, value)
        self._originals |= {"_WORLD_SIZE": None, "_ORDINAL": None}
        runtime._WORLD_SIZE, runtime._ORDINAL = self.world, self.rank

    def _answer(self, module: Any, name: str, value: int) -> None:
        if hasattr(module, name):
            self._originals.setdefault(f"{module.__name__} {name}", getattr(module, name))
            setattr(module, name, lambda *args, **kwargs: value)

    def _end(self) -> None:
        """The parent process, which goes on behind the launch, is alone again."""
        runtime: Any = importlib.import_module("torch_xla.runtime")
        for key, original in self._originals.items():
            name, _, function = key.rpartition(" ")
            setattr(importlib.import_module(name) if name else runtime, function, original)

    def check(self) -> ReplicaError | None:
        """Replicas were asked for, and the script never started any."""
        if self.started or self.world == 1:
            return None
        return ReplicaError(
            f"each of the {self.world} replicas ran alone: the script calls neither torch_xla.launch nor "
            "xmp.spawn, and makes no process group with init_method='xla://'"
        )
