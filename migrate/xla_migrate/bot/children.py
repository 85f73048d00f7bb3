"""Processes that end in time, can be stopped, and know nothing of this one's secrets."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PASSED_ON = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "PJRT_DEVICE")
_KEPT = 1_000_000  # bytes of output
_LIMITED = ("sh", "-c", 'ulimit -c 0; ulimit -f "$1"; shift; exec "$@"', "sh")


class Stopped(Exception):
    """The work is not wanted any more."""


class TooLong(Exception):
    """A process did not end in its time."""


@dataclass(frozen=True)
class Ended:
    status: int
    out: bytes
    err: str


def environment(home: Path, **more: str) -> dict[str, str]:
    """What a child may know: where programs are, and a home folder of its own."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**passed, "HOME": str(home), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **more}


def run(
    command: Sequence[str],
    folder: Path,
    *,
    timeout: float,
    env: Mapping[str, str],
    stop: Callable[[], bool] = lambda: False,
    given: bytes = b"",
    keep: int = _KEPT,
    largest: int = 1_000_000_000,
) -> Ended:
    """Run a program in a session of its own; when this returns or raises, all of it has ended.

    ``timeout`` is in seconds, ``keep`` the bytes of output that are given back, ``largest`` those of a file
    that the program may write. Raises ``TooLong``, ``Stopped`` once ``stop`` says so, and ``OSError`` where
    the program cannot be started.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as stdin:
        stdin.write(given)
        stdin.seek(0)
        process = subprocess.Popen(
            [*_LIMITED, str(largest // 512), *command],
            cwd=folder,
            env=dict(env),
            stdin=stdin,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            _wait(process, timeout, stop)
        finally:
            _end(process)
        texts = [_kept(file.fileno(), size) for file, size in ((out, keep), (err, _KEPT))]
    return Ended(process.returncode, texts[0], texts[1].decode("utf-8", "replace"))


def _wait(process: subprocess.Popen[bytes], timeout: float, stop: Callable[[], bool]) -> None:
    ends = time.monotonic() + timeout
    while True:
        try:
            process.wait(0.1)
            return
        except subprocess.TimeoutExpired:
            if stop():
                raise Stopped from None
            if time.monotonic() > ends:
                raise TooLong(f"not done within {timeout:.0f} seconds") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Also what the process left behind in its session's group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _kept(descriptor: int, size: int) -> bytes:
    return os.pread(descriptor, size, 0)
