"""Starting recording processes and collecting their traces."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import IO, Any

from xla_migrate.verify.failures import unrecorded
from xla_migrate.verify.overlay import remove
from xla_migrate.verify.shards import joined
from xla_migrate.verify.trace import Request, Trace
from xla_migrate.verify.trace_file import PROGRESS, STDERR, STDOUT, TRACE, load, read_text

BOOT = Path(__file__).with_name("boot.py")
POLL = 0.1
"""Seconds between two looks at how far a run is."""

Progress = Callable[[int], None]
"""Is told the number of optimizer steps so far."""


class CannotRecord(RuntimeError):
    """No run can be recorded in an interpreter; says why and what to do."""


class Runner:
    """Records runs, with one server process a side that has imported torch (and torch_xla) already.

    Use it as a context manager: at its end, also by an exception, no process is left. A server starts
    with the first request for its side, in the interpreter that ``pythons`` names for it. Several threads
    may ask; runs of one side follow one another.
    """

    def __init__(self, pythons: Mapping[str, str] | None = None) -> None:
        self._pythons = dict(pythons or {})
        self._servers: dict[str, Server] = {}
        self._locks = {side: Lock() for side in ("native", "xla")}

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """End the servers and what they run."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    def start(self, side: str) -> None:
        """Start the server of a side, and do not wait for its imports. Raises :class:`CannotRecord`
        where its interpreter lacks a package."""
        if side not in self._servers:
            self._servers[side] = Server(self._pythons.get(side) or sys.executable, side)

    def record(
        self,
        script: Path,
        side: str,
        workdir: Path,
        *,
        mode: str = "values",
        argv: list[str] | None = None,
        timeout: float = 120.0,
        progress: Progress | None = None,
        **options: Any,
    ) -> Trace:
        """Run ``script`` in ``workdir`` and return its trace; a run that fails has
        ``trace.failure``.

        ``side``, ``mode``, ``timeout`` (seconds) and ``options`` are those of
        :class:`xla_migrate.verify.trace.Request`. Raises :class:`CannotRecord` where the recording
        process itself cannot be started.
        """
        with tempfile.TemporaryDirectory(prefix="trace-") as directory:
            request = Request(
                script=str(script.resolve()),
                side=side,
                workdir=str(workdir.resolve()),
                out=directory,
                mode=mode,
                argv=list(argv or ()),
                timeout=timeout,
                **options,
            )
            return joined([_collect(request, Path(directory), self._ask(request, progress))])[0]

    def record_all(self, requests: list[Request]) -> list[Trace]:
        """Run requests of one side at once, in processes that may wait for each other."""
        statuses = self._reply_to(requests[0].side, [asdict(request) for request in requests])
        return [
            _collect(request, Path(request.out), status)
            for request, status in zip(requests, statuses, strict=True)
        ]

    def _ask(self, request: Request, progress: Progress | None = None) -> int | None:
        status: int | None = self._reply_to(
            request.side, asdict(request), _watcher(Path(request.out) / PROGRESS, progress)
        )
        return status

    def _reply_to(self, side: str, asked: object, meanwhile: Callable[[], None] = lambda: None) -> Any:
        with self._locks[side]:
            self.start(side)
            try:
                return self._servers[side].ask(asked, meanwhile)["status"]
            except CannotRecord:
                self._servers.pop(side).close()
                raise


def _watcher(file: Path, progress: Progress | None) -> Callable[[], None]:
    """Tells ``progress`` what the run has left in ``file``, where that is news."""
    last = 0

    def look() -> None:
        nonlocal last
        text = read_text(file) if progress else ""
        if progress and text.isdecimal() and int(text) != last:
            last = int(text)
            progress(last)

    return look


def _collect(request: Request, directory: Path, status: int | None) -> Trace:
    try:
        return load(directory / TRACE)
    except FileNotFoundError:
        return Trace(
            request.side,
            request.mode,
            script=Path(request.script).name,
            argv=request.argv,
            seed=request.seed,
            rng=request.rng,
            failure=unrecorded(request, directory, status),
            stdout=read_text(directory / STDOUT),
            stderr=read_text(directory / STDERR),
        )


class Server:
    """A process that answers requests for one side, in a session of its own: Ctrl-C is for its starter,
    whose end it notices. Its temporary files, and those of runs that are killed, go with it."""

    def __init__(self, python: str, side: str) -> None:
        self.python, self.side, self._imported = python, side, False
        self._temporary = Path(tempfile.mkdtemp(prefix="recording-"))
        self._errors = self._temporary / "errors.txt"
        try:
            self._process = self._start()
        except OSError as error:
            remove(self._temporary)
            raise CannotRecord(f"{python} cannot be started: {error.strerror}") from error
        try:
            self._reply()
        except BaseException:
            self.close()
            raise

    def _start(self) -> subprocess.Popen[str]:
        with self._errors.open("wb") as errors:
            return subprocess.Popen(
                [self.python, str(BOOT), "--serve", self.side],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**_environment(), "TMPDIR": str(self._temporary)},
                text=True,
                start_new_session=True,
            )

    def ask(self, asked: object, meanwhile: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Send one request and return the reply; ``meanwhile`` is called every now and then."""
        if not self._imported:
            self._reply()
            self._imported = True
        with suppress(BrokenPipeError):
            print(json.dumps(asked), file=_stream(self._process.stdin), flush=True)
        output = _stream(self._process.stdout)
        while not select.select([output], [], [], POLL)[0]:
            meanwhile()
        reply = self._reply()
        meanwhile()
        return reply

    def _reply(self) -> dict[str, Any]:
        line = _stream(self._process.stdout).readline()
        reply: dict[str, Any] = json.loads(line) if line else {}
        if "missing" in reply:
            package = reply["missing"]
            option = "--xla-python" if self.side == "xla" else "--native-python"
            raise CannotRecord(
                f"{package} is not installed for {self.python}: pip install 'xla-migrate[run]' there, "
                f"or name another interpreter with {option}"
            )
        if not line:
            raise CannotRecord(f"the recording process of {self.python} has ended: {self._last_words()}")
        return reply

    def _last_words(self) -> str:
        lines = [line for line in read_text(self._errors).splitlines() if line.strip()]
        return " | ".join(lines[-3:]) or f"exit status {self._process.wait()}"

    def close(self) -> None:
        """End the process and what it runs: it does so itself when its input is closed."""
        with suppress(BrokenPipeError):
            _stream(self._process.stdin).close()
        try:
            self._process.wait(timeout=10 if self._imported else 0.5)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        _stream(self._process.stdout).close()
        remove(self._temporary)


def _environment() -> dict[str, str]:
    """The environment of a server: the device is the CPU unless another one is chosen.

    Compilation takes most of the time of a short run; without XLA's optimisations it takes half,
    for the same numbers.
    """
    device = os.environ.get("PJRT_DEVICE", "CPU")
    fast = {"XLA_FLAGS": "--xla_backend_optimization_level=0"} if device == "CPU" else {}
    return {**fast, **os.environ, "PJRT_DEVICE": device}


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
