"""How far the runs are: a line a stage, or a bar where there is a terminal."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest

from xla_migrate.reports.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_each_stage_is_two_plain_lines() -> None:
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress.start("native run", 3)
        progress.advance(2)
        progress.advance(1)
        progress.start("migration")
        progress.done()
    text = re.sub(r"\d+\.\d s", "0 s", stream.getvalue())
    assert text == (
        "native run ...\nnative run: done (3 steps, 0 s)\nmigration ...\nmigration: done (0 s)\n"
    )


def test_a_stage_that_fails_is_not_called_done() -> None:
    stream = io.StringIO()

    def fail() -> None:
        with Progress(stream) as progress:
            progress.start("native run")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert stream.getvalue() == "native run ...\n"


def test_quiet_says_nothing() -> None:
    for stream in (io.StringIO(), Terminal()):
        with Progress(stream, quiet=True) as progress:
            progress.start("native run", 2)
            progress.advance(1)
        assert stream.getvalue() == ""


def test_a_terminal_shows_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Progress(stream) as progress:
        progress.start("native [bold]run", 1200)
        progress.advance(1200)
        progress.start("migrated run")
        progress.advance(1)
    text = stream.getvalue()
    assert "native [bold]run" in text
    assert "1,200 steps" in text
    assert "1 step" in text


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Progress(stream) as progress:
        progress.start("native run")
    assert stream.getvalue().startswith("native run ...\n")


def test_a_name_does_not_steer_the_terminal() -> None:
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress.start("\x1b[2J")
    assert "\x1b" not in stream.getvalue()


def test_plain_lines_need_no_rich() -> None:
    code = (
        "import sys; from xla_migrate.reports.progress import Progress\n"
        "with Progress() as progress: progress.start('a')\n"
        "assert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
