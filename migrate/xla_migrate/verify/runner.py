"""Starting recording processes and collecting their traces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from xla_migrate.verify.trace import Failure, Request, Trace
from xla_migrate.verify.trace_file import STDERR, STDOUT, TRACE, load, read_text


class Runner:
    """Records runs, with one server process a side that has imported torch (and torch_xla) already.

    Use it as a context manager. A server starts with the first request for its side.
    """

    def __init__(self) -> None:
        self._servers: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the servers."""
        for server in self._servers.values():
            _input_of(server).close()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
            _output_of(server).close()
        self._servers.clear()

    def record(
        self,
        script: Path,
        side: str,
        workdir: Path,
        *,
        mode: str = "values",
        argv: list[str] | None = None,
        timeout: float = 120.0,
    ) -> Trace:
        """Run ``script`` in ``workdir`` and return its trace; a run that fails has
        ``trace.failure``.

        ``side``, ``mode`` and ``timeout`` (seconds) are those of
        :class:`xla_migrate.verify.trace.Request`. Raises RuntimeError where the recording process
        itself cannot be started.
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
            )
            status = self._ask(request)
            return _collect(request, Path(directory), status)

    def record_all(self, requests: list[Request]) -> list[Trace]:
        """Run requests of one side at once, in processes that may wait for each other."""
        statuses = self._reply_to(requests[0].side, [asdict(request) for request in requests])
        return [
            _collect(request, Path(request.out), status)
            for request, status in zip(requests, statuses, strict=True)
        ]

    def _ask(self, request: Request) -> int | None:
        status: int | None = self._reply_to(request.side, asdict(request))
        return status

    def _reply_to(self, side: str, asked: object) -> Any:
        server = self._servers.get(side)
        if server is None:
            server = self._servers[side] = _start(side)
        print(json.dumps(asked), file=_input_of(server), flush=True)
        return _reply(server)["status"]


def _collect(request: Request, directory: Path, status: int | None) -> Trace:
    try:
        return load(directory / TRACE)
    except FileNotFoundError:
        stderr = read_text(directory / STDERR)
        cause = f"no end after {request.timeout:g} s" if status is None else f"exit status {status}"
        failure = Failure("NoTrace", f"the run left no trace: {cause}", stderr.splitlines()[-6:])
        return Trace(
            request.side,
            request.mode,
            failure=failure,
            stdout=read_text(directory / STDOUT),
            stderr=stderr,
        )


def _start(side: str) -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "xla_migrate.verify.record", "--serve", side],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(),
        text=True,
    )
    _reply(server)
    return server


def _environment() -> dict[str, str]:
    """The environment of a server: the device is the CPU, and this package can be imported.

    Compilation takes most of the time of a short run; without XLA's optimisations it takes half,
    for the same numbers.
    """
    root = str(Path(__file__).resolve().parents[2])
    paths = [path for path in (root, os.environ.get("PYTHONPATH")) if path]
    return {
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        **os.environ,
        "PJRT_DEVICE": "CPU",
        "PYTHONPATH": os.pathsep.join(paths),
    }


def _reply(server: subprocess.Popen[str]) -> dict[str, Any]:
    line = _output_of(server).readline()
    if not line:
        raise RuntimeError(
            "the recording process has ended; does it start? Try: "
            f"{sys.executable} -m xla_migrate.verify.record --serve native"
        )
    reply: dict[str, Any] = json.loads(line)
    return reply


def _input_of(server: subprocess.Popen[str]) -> IO[str]:
    assert server.stdin is not None
    return server.stdin


def _output_of(server: subprocess.Popen[str]) -> IO[str]:
    assert server.stdout is not None
    return server.stdout
