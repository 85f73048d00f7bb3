"""Fixtures for the tests that run scripts: one recording server a side, for the whole session."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xla_migrate.verify import Runner, Trace

Record = Callable[..., Trace]


@pytest.fixture(scope="session")
def runner() -> Iterator[Runner]:
    with Runner() as started:
        yield started


@pytest.fixture
def record(runner: Runner, tmp_path: Path) -> Record:
    """``record(code, side, **options)`` writes a script, runs it in a directory of its own and
    returns the trace."""

    def recorded(code: str, side: str, **options: object) -> Trace:
        workdir = tmp_path / f"{side}-{len(list(tmp_path.iterdir()))}"
        workdir.mkdir()
        script = workdir / "script.py"
        script.write_text(textwrap.dedent(code))
        return runner.record(script, side, workdir, **options)  # type: ignore[arg-type]

    return recorded


@pytest.fixture
def succeed(record: Record) -> Record:
    """``succeed(code, side)`` records a script and fails the test where the script, or an assertion
    in it, fails."""

    def checked(code: str, side: str = "native", **options: object) -> Trace:
        trace = record(code, side, **options)
        if trace.failure is not None:
            pytest.fail(f"{trace.failure}\n{trace.stderr[-2000:]}", pytrace=False)
        return trace

    return checked
