"""Scripts that start their processes several times, one run of them after the other.

Each replica runs the script up to the first start. Behind it the first replica alone is the process that
started them; the others wait there, and go on to the next start when the first one has come to it.
"""

from __future__ import annotations

import time
from datetime import timedelta

from xla_migrate.verify.replicas.meeting import Meeting

AGAIN, END = "again", "end"


class Starts:
    """Counts the starts of one replica, whose script may be at another place than that of the first."""

    def __init__(self, meeting: Meeting) -> None:
        self.meeting, self.count = meeting, 0

    def begin(self) -> None:
        """The script has come to a start."""
        self.count += 1
        if self.meeting.rank == 0 and self.count > 1:
            self._tell(self.count, AGAIN)

    def end(self) -> None:
        """The script has ended: no other start comes."""
        if self.meeting.rank == 0:
            self._tell(self.count + 1, END)

    def wait(self) -> None:
        """Behind a start, until all are there; the first one goes on. The others wait for another start,
        and end where there is none, as their processes end there."""
        problem = self.meeting.leave("ended without it")
        if self.meeting.rank == 0:
            return
        if problem is not None:
            raise SystemExit(0)
        key = self._key(self.count + 1)
        left = timedelta(seconds=max(self.meeting.deadline - time.monotonic(), 0.1))
        try:
            self.meeting.store.wait([key], left)
        except RuntimeError:  # none has come in time
            raise SystemExit(0) from None
        if self.meeting.store.get(key).decode() != AGAIN:
            raise SystemExit(0)

    def _tell(self, number: int, what: str) -> None:
        self.meeting.store.set(self._key(number), what)

    def _key(self, number: int) -> str:
        return f"start {number}"
