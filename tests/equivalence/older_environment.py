"""The environment of torch 2.1, built where slow tests run and the package index offers it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import venv
from dataclasses import asdict, replace
from pathlib import Path

from xla_migrate.verify import Trace
from xla_migrate.verify.shards import joined
from xla_migrate.verify.trace import Request
from xla_migrate.verify.trace_file import STDERR, TRACE, load, read_text

ROOT = Path(__file__).parents[2]
PLACE = ROOT / ".venv-2.1"
NEEDED = ("torch==2.1.0", "torch_xla==2.1.0", "numpy<2", "setuptools<70", "packaging")
RECORDER = Path(__file__).with_name("older_release.py")


class Unavailable(Exception):
    """There is no such environment here; says why."""


def interpreter() -> Path:
    """The interpreter of the environment, which is built at the first call. Raises Unavailable.

    Processes that test side by side wait for the one that builds.
    """
    if sys.version_info[:2] not in ((3, 10), (3, 11)):
        raise Unavailable("torch_xla 2.1.0 needs Python 3.10 or 3.11")
    python, built = PLACE / "bin" / "python", PLACE / "built-for"
    with open(PLACE.with_suffix(".1.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists() or built.read_text() != "\n".join(NEEDED):
            _build(python)
            built.write_text("\n".join(NEEDED))
    return python


def _build(python: Path) -> None:
    venv.create(PLACE, clear=True, with_pip=True)
    with_uv = [sys.executable, "-m", "uv", "pip", "install", "--python", str(python), *NEEDED]
    with_pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", *NEEDED]
    for command in (with_uv, with_pip):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not done.returncode:
            return
    raise Unavailable("the package index does not give torch 2.1: " + done.stderr.strip()[-300:])


def record(python: Path, script: Path, workdir: Path, mode: str, argv: list[str]) -> Trace:
    """Run a migrated script in that environment and return its trace."""
    with tempfile.TemporaryDirectory(prefix="trace-") as out:
        return _finished(_started(python, Request(str(script), "xla", str(workdir), out, mode, argv)))


def record_replicas(python: Path, script: Path, workdir: Path, world: int, argv: list[str]) -> list[Trace]:
    """Run a migrated script in that environment as so many replicas; their traces, by rank."""
    with tempfile.TemporaryDirectory(prefix="replicas-") as directory:
        place = Path(directory)
        requests = [
            Request(
                str(script), "xla", str(workdir), str(place / str(rank)), argv=argv, seed=rank, rank=rank,
                world=world, rendezvous=str(place / "rendezvous"),
            )
            for rank in range(world)
        ]  # fmt: skip
        running = [_started(python, request) for request in requests]
        return joined([_finished(one) for one in running])


def _started(python: Path, request: Request) -> tuple[subprocess.Popen[str], Request]:
    asked = json.dumps(asdict(replace(request, rng="device")))
    environment = {
        **os.environ,
        "PJRT_DEVICE": "CPU",
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("migrate", "transforms")),
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
    }
    command = [str(python), str(RECORDER), asked]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True), request


def _finished(running: tuple[subprocess.Popen[str], Request]) -> Trace:
    process, request = running
    try:
        _, stderr = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    try:
        return load(Path(request.out) / TRACE)
    except FileNotFoundError:
        said = stderr + read_text(Path(request.out) / STDERR)
        raise AssertionError(f"the run left no trace: {said[-1000:]}") from None
