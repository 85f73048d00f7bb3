"""Making the recording process one replica of its run, and what it has noted in the end."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from xla_migrate.verify.calls import Calls
from xla_migrate.verify.replicas import process_group
from xla_migrate.verify.replicas.files import WrittenFiles
from xla_migrate.verify.replicas.functions import Carrier
from xla_migrate.verify.replicas.gradients import Reductions
from xla_migrate.verify.replicas.launching import Launching
from xla_migrate.verify.replicas.meeting import Announcement, Meeting, ReplicaError
from xla_migrate.verify.replicas.starts import Starts
from xla_migrate.verify.trace import Failure, Request, Trace


class Replica:
    """One process of a run of several."""

    def __init__(self, request: Request, steps: Callable[[], int]) -> None:
        """Meet the others, and patch torch (and torch_xla); returns when all replicas are there."""
        self.request = request
        self.calls = Calls(Path(request.script).parent, steps)
        self.files = WrittenFiles()
        self.meeting = Meeting(request.rank, request.world, request.rendezvous, request.timeout)
        self.starts = Starts(self.meeting)
        self.launching: Launching | None = None
        self.reductions: Reductions | None = None
        self.meeting.exchange(Announcement("start", "starts"))
        if request.side == "native":
            self._become_native()
        else:
            self._become_xla()

    def _become_xla(self) -> None:
        """Replace what torch_xla does between replicas."""
        rank, world = self.request.rank, self.request.world
        self.launching = launching = Launching(rank, world, self.starts)
        xla: Any = importlib.import_module("torch_xla")._XLAC
        self.reductions = Reductions(lambda tensor: int(xla._xla_get_tensor_id(tensor)))
        self.reductions.install()
        metrics: Any = importlib.import_module("torch_xla.debug.metrics")
        self.calls.barriers = lambda: metrics.counter_value("MarkStep") or 0
        if world > 1:
            Carrier(self.meeting, self.calls, self.reductions).install()
        launching.install()

        def begun(backend: str, init_method: str) -> str:
            if backend == "xla" and init_method.startswith(("xla:", "pjrt:")) and not launching.started:
                launching.begin()
            return backend

        self._share(begun)

    def _become_native(self) -> None:
        """Let the ranks of a native script meet over gloo."""
        from xla_migrate.verify.cuda_stand_in import distributed

        process_group.set_environment_of_others(self.request.rank, self.request.world)
        distributed.install(self.request.rank, self.request.world, self.calls, self.starts)
        self._share(distributed.backend)

    def _share(self, begun: Callable[[str, str], str]) -> None:
        rank, world = self.request.rank, self.request.world
        limit = timedelta(seconds=self.request.timeout)
        process_group.set_environment(rank, world)
        process_group.join_by_file(rank, world, self.meeting.store, begun, limit)
        process_group.watch(self.calls)
        self.files.install()

    def finish(self, failure: Failure | None) -> Failure | None:
        """Tell the others that the script has ended; what is wrong with this run, if anything is."""
        self.starts.end()
        problem = self.meeting.broken
        if problem is None:
            text = "ended without it" if failure is None else f"failed before it ({failure.kind})"
            problem = self.meeting.leave(text)
        if problem is None and self.launching is not None:
            problem = self.launching.check()
        if failure is not None or problem is None:
            return failure
        return Failure(ReplicaError.__name__, str(problem))

    def write_into(self, trace: Trace) -> None:
        """Leave what was noted."""
        trace.collectives = self.calls.made
        trace.files = self.files.of(trace.files, Path(self.request.workdir))
        if self.reductions is not None:
            trace.reductions = self.reductions.steps

