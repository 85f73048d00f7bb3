"""How long to wait before a forge is asked again, and when not to.

Sources: GitHub's "Rate limits for the REST API" (``retry-after``, ``x-ratelimit-reset``, at least a minute
without either) and "Best practices for using the REST API" (no request is repeated at once).
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds that a request may wait for; a job that has to wait longer is put off."""
TRIES = 3


class Backoff:
    """Waits between the requests of one job; ``sleep`` takes seconds."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep

    def limited(self, seconds: float, count: int) -> bool:
        """A refused request whose turn is in so many seconds: wait and say whether to try again."""
        if seconds > PATIENCE or count >= TRIES:
            return False
        self._sleep(max(seconds, 1.0))
        return True

    def failed(self, count: int, repeatable: bool) -> bool:
        """A request that the server failed: wait, and say whether the same may be sent again."""
        self._sleep(2.0**count)
        return repeatable and count < TRIES
