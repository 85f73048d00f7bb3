"""Parts of a run in several processes."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress

from xla_migrate.work.parts import Part
from xla_migrate.work.records import Record

# A copy of a process that has read the tool works at once; elsewhere it is not to be had, or not safe.
_METHOD = "fork" if sys.platform == "linux" else "spawn"


def in_processes(parts: Sequence[Part], jobs: int) -> Iterator[tuple[int, list[Record]]]:
    """Start processes, and give the records of each part with its number as they are done.

    The largest parts begin. Where a process dies, its part and those that wait are left out. Leaving the
    iterator ends the processes.
    """
    import xla_transforms.pipeline  # once for all processes, where they are copies  # noqa: F401

    context = multiprocessing.get_context(_METHOD)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin)
    order = sorted(range(len(parts)), key=lambda number: -parts[number].size)
    return _records(pool, {pool.submit(parts[number].records): number for number in order})


def _records(
    pool: ProcessPoolExecutor, futures: dict[Future[list[Record]], int]
) -> Iterator[tuple[int, list[Record]]]:
    processes = list(pool._processes.values())
    done = False
    try:
        for future in as_completed(futures):
            with suppress(BrokenProcessPool):
                yield futures[future], future.result()
        done = True
    finally:
        pool.shutdown(wait=done, cancel_futures=True)
        for process in processes if not done else ():
            process.terminate()


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for this one hears it

