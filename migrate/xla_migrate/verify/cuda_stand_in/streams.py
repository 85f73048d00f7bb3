"""Streams, events and scopes of a device that does everything at once and in order."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from xla_migrate.verify.cuda_stand_in.storages import CUDA


class Stream:
    """A stream of a device that does everything in order."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = CUDA
        self.cuda_stream = 0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *problem: object) -> None:
        return None

    def query(self) -> bool:
        """Whether all work is done: always."""
        return True

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, a new one where none is given."""
        event = event or Event()
        event.record()
        return event

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def wait_event(self, event: object) -> None:
        """Nothing is ever pending."""

    def wait_stream(self, stream: object) -> None:
        """Nothing is ever pending."""


class Event:
    """An event that takes the time of the host."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._time: float | None = None

    def record(self, stream: object = None) -> None:
        """Take the time."""
        self._time = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to ``end``; raises RuntimeError where either was not
        recorded."""
        if self._time is None or end._time is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end._time - self._time) * 1000

    def query(self) -> bool:
        """Whether the event has happened: always."""
        return True

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def wait(self, stream: object = None) -> None:
        """Nothing is ever pending."""


class Scope(contextlib.ContextDecorator):
    """``torch.cuda.device(0)``, ``torch.cuda.stream(s)`` and their like: a ``with`` that changes
    nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.idx = 0

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, *problem: object) -> None:
        return None
