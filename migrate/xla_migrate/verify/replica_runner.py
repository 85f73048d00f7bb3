"""Recording the replicas of one run: a process each, all at once."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xla_migrate.verify import processes
from xla_migrate.verify.shards import joined
from xla_migrate.verify.trace import Request, Trace

if TYPE_CHECKING:
    from xla_migrate.verify.runner import Runner

GRACE = 10.0
"""Seconds that the other replicas have when one of them is gone."""


def record_replicas(
    runner: Runner, script: Path, side: str, workdir: Path, world: int, *, seed: int = 0, **options: Any
) -> list[Trace]:
    """Run ``script`` as ``world`` replicas (native: ranks) that share ``workdir``; their traces.

    A replica that fails has ``trace.failure``; where one does what the others do not, all have.
    Each has a seed of its own, as processes have that nobody seeds: weights that are neither seeded
    nor broadcast by the script differ. ``options`` are fields of a request: ``argv``, ``timeout``...
    """
    if options.get("mode", "values") != "values":
        raise ValueError("executions are counted in a run of one replica")
    with tempfile.TemporaryDirectory(prefix="replicas-") as directory:
        place = Path(directory)
        requests = [
            Request(
                script=str(script.resolve()),
                side=side,
                workdir=str(workdir.resolve()),
                out=str(place / str(rank)),
                seed=seed + rank,
                rank=rank,
                world=world,
                rendezvous=str(place / "rendezvous"),
                **options,
            )
            for rank in range(world)
        ]
        return joined(runner.record_all(requests))


def fork_all(requests: list[Request], child: Callable[[Request], None]) -> list[int | None]:
    """Run ``child`` for each request in a process of its own; their exit statuses, None for one that
    had to be ended. ``child`` does not return."""
    running: dict[int, int] = {}
    for place, request in enumerate(requests):
        process = os.fork()
        if process == 0:
            child(request)
        running[process] = place
    statuses: list[int | None] = [None] * len(requests)
    deadline = time.monotonic() + max(request.timeout for request in requests)
    while running and time.monotonic() < deadline:
        for process in list(running):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                processes.end_group(process)
                code = statuses[running.pop(process)] = os.waitstatus_to_exitcode(status)
                if code:
                    deadline = min(deadline, time.monotonic() + GRACE)
        if processes.abandoned():
            break
        time.sleep(0.01)
    for process in running:
        processes.end(process)
    return statuses
