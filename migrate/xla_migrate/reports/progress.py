"""How far the runs are, on the terminal while they go on; one plain line a stage elsewhere."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, TextIO

from xla_migrate.reports.terminal import shown

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID


class Progress:
    """A context manager around the stages of a run.

    ``start`` begins a stage and ends the one before; ``advance`` adds steps to it, or what ``noun`` says.
    ``stream`` is standard error by default. rich is imported only for a terminal that can move its cursor;
    ``passing`` bars go at the end.
    """

    def __init__(
        self, stream: TextIO | None = None, *, quiet: bool = False, noun: str = "step", passing: bool = False
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._quiet, self._noun, self._passing = quiet, noun, passing
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        self._stage, self._steps, self._began = "", 0, 0.0

    def __enter__(self) -> Progress:
        if not self._quiet and self._stream.isatty() and os.environ.get("TERM") != "dumb":
            self._bars = _bars(self._stream, self._passing)
            self._bars.start()
        return self

    def __exit__(self, kind: object, *raised: object) -> None:
        if kind is None:
            self.done()
        self._stage = ""
        if self._bars is not None:
            self._bars.stop()

    def start(self, stage: str, total_steps: int | None = None) -> None:
        """Begin a stage of so many steps, None where nobody knows how many."""
        self.done()
        self._stage, self._steps, self._began = shown(stage), 0, time.monotonic()
        if self._bars is not None:
            self._task = self._bars.add_task(self._stage, total=total_steps, steps="")
        else:
            self._say(f"{self._stage} ...")

    def advance(self, steps: int = 1) -> None:
        """So many more steps are done."""
        self._steps += steps
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, advance=steps, steps=self._told(self._steps))

    def done(self) -> None:
        """The stage is over, however many steps it had."""
        if not self._stage:
            return
        if self._bars is not None and self._task is not None:
            total = max(self._steps, 1)
            self._bars.update(self._task, total=total, completed=total, steps=self._told(self._steps))
        else:
            seconds = f"{time.monotonic() - self._began:.1f} s"
            steps = f"{self._told(self._steps)}, " if self._steps else ""
            self._say(f"{self._stage}: done ({steps}{seconds})")
        self._stage, self._task = "", None

    def _told(self, steps: int) -> str:
        return f"1 {self._noun}" if steps == 1 else f"{steps:,} {self._noun}s" if steps else ""

    def _say(self, text: str) -> None:
        if not self._quiet:
            self._stream.write(text + "\n")
            self._stream.flush()


def _bars(stream: TextIO, passing: bool) -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    return Bars(
        SpinnerColumn(finished_text="✓"),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[steps]}", markup=False),
        TimeElapsedColumn(),
        console=Console(file=stream),
        transient=passing,
    )
