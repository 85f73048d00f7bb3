"""The environment of torch 2.1, built where slow tests run and the package index offers it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import venv
from dataclasses import asdict
from pathlib import Path

from xla_migrate.verify import Trace
from xla_migrate.verify.trace import Request
from xla_migrate.verify.trace_file import TRACE, load

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
        request = Request(str(script), "xla", str(workdir), out, mode=mode, argv=argv, rng="device")
        command = [str(python), str(RECORDER), json.dumps(asdict(request))]
        paths = os.pathsep.join(str(ROOT / part) for part in ("migrate", "transforms"))
        environment = {
            **os.environ,
            "PJRT_DEVICE": "CPU",
            "PYTHONPATH": paths,
            "XLA_FLAGS": "--xla_backend_optimization_level=0",
        }
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        try:
            return load(Path(out) / TRACE)
        except FileNotFoundError:
            raise AssertionError(f"the run left no trace: {done.stderr[-1000:]}") from None
