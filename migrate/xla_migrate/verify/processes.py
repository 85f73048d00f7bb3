"""Ends a run when its time is over, its starter is gone, or it has ended but its children have not."""

from __future__ import annotations

import ctypes
import faulthandler
import math
import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path

STACKS = "stacks.txt"
"""What each thread was doing when the time was nearly over."""

UNWRITTEN = 74
"""Exit status of a run whose trace could not be written."""

EARLY = 1.0  # seconds before the end of the time, or a tenth of it, for the stacks


def arm(out: Path, timeout: float) -> None:
    """Let this process leave the stacks of its threads when it crashes or its time is nearly over,
    and end when its parent does."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG, on Linux
    faulthandler.enable(2)
    if math.isfinite(timeout):
        out.mkdir(parents=True, exist_ok=True)
        stacks = os.open(out / STACKS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        after = max(timeout - min(EARLY, timeout / 10), 0.01)
        faulthandler.dump_traceback_later(after, file=stacks)


def wait(process: int, timeout: float) -> int | None:
    """The exit status of a child (minus the number of the signal that killed it), None where its time
    was over. Its process group is gone afterwards."""
    deadline = time.monotonic() + timeout
    done = status = 0
    while not done and time.monotonic() < deadline:
        done, status = os.waitpid(process, os.WNOHANG)
        if not done and abandoned():
            end(process)
            os._exit(1)
        if not done:
            time.sleep(0.01)
    if not done:
        end(process)
        return None
    end_group(process)
    return os.waitstatus_to_exitcode(status)


def end(process: int) -> None:
    """Kill a child with its process group, and collect it."""
    end_group(process)
    with suppress(ProcessLookupError):  # it may not have made its group yet
        os.kill(process, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(process, 0)


def end_group(process: int) -> None:
    """Kill what is left of the process group of a child."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def abandoned() -> bool:
    """Whether the process at the other end of standard input is gone."""
    poll = select.poll()
    poll.register(0, 0)  # nothing but the end of the other side
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))
