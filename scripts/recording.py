"""What recording costs: the wall time of a recorded native run and of the same run as it is."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from xla_migrate.verify import Runner

SCRIPT = Path(__file__).parents[1] / "golden" / "mnist_no_cuda_flag" / "native.py"
ARGUMENTS = ("--no-cuda", "--epochs", "12")  # long enough to outweigh what is done once


def recording_cost(rounds: int) -> tuple[float, float]:
    """The best wall times in seconds of the plain and of the recorded run, taken in alternation."""
    with Runner() as runner:
        pairs = [(_seconds(runner, "plain"), _seconds(runner, "values")) for _ in range(rounds)]
    plain, recorded = (min(times) for times in zip(*pairs, strict=True))
    return plain, recorded


def _seconds(runner: Runner, mode: Literal["plain", "values"]) -> float:
    with _copy() as script:
        trace = runner.record(script, "native", script.parent, mode=mode, argv=list(ARGUMENTS))
    if trace.failure is not None:
        raise RuntimeError(f"{SCRIPT} did not run: {trace.failure}")
    return trace.seconds


@contextmanager
def _copy() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_bytes(SCRIPT.read_bytes())
        yield script
