"""What recording costs: the time of a recorded native run and of the same run as it is.

The CPU time of the whole process counts, until the trace is written: what else the machine does hardly
changes it, and work that is put off to the end is not free. The wall time is that of the script alone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from xla_migrate.verify import record
from xla_migrate.verify.trace import Request
from xla_migrate.verify.trace_file import TRACE, load

SCRIPT = Path(__file__).parents[1] / "golden" / "mnist_no_cuda_flag" / "native.py"
RUNS = (
    ("--no-cuda", "--epochs", "12"),  # long enough to outweigh what is done once
    ("--no-cuda", "--epochs", "60"),
    ("--epochs", "12"),  # with the stand-in for CUDA in use: without it the same run is on the CPU
    ("--epochs", "60"),
)


class Seconds(NamedTuple):
    """The time of one run."""

    cpu: float
    wall: float


def recording_cost(arguments: tuple[str, ...], rounds: int) -> tuple[Seconds, Seconds]:
    """The best times of the plain and of the recorded run, taken in alternation."""
    record.preload("native")  # as the server has that forks the runs of ``verify``
    pairs = [(_run("plain", arguments), _run("values", arguments)) for _ in range(rounds)]
    plain, recorded = (Seconds(*map(min, zip(*times, strict=True))) for times in zip(*pairs, strict=True))
    return plain, recorded


def _run(mode: Literal["plain", "values"], arguments: tuple[str, ...]) -> Seconds:
    with _copy() as script, tempfile.TemporaryDirectory() as out:
        request = Request(
            str(script), "native", str(script.parent), out, mode=mode, argv=list(arguments), timeout=600
        )
        process = os.fork()
        if process == 0:
            record.run_forked(request)
        _, _, used = os.wait4(process, 0)
        trace = load(Path(out) / TRACE)
    if trace.failure is not None:
        raise RuntimeError(f"{SCRIPT} did not run: {trace.failure}")
    return Seconds(used.ru_utime + used.ru_stime, trace.seconds)


@contextmanager
def _copy() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_bytes(SCRIPT.read_bytes())
        yield script
