"""Which questions of the analysis are open, and which answers rest on one that is.

A question may lead back to itself: a loop's variable to its own value, a function to its caller. Where it
does, the inner one is answered without the outer one's part. What was found on the way lacks that part, so it
is kept only until the outer question is answered; what rests on no open question is kept for good. (The
components of Tarjan's algorithm, each found by the question that enters it first.)
"""

from __future__ import annotations

import sys
from itertools import takewhile
from typing import Any

_NONE = sys.maxsize
# How often questions may be asked of one program: more than the largest one known to end needs (timm's
# train.py with all that it imports, 236 files, two and a half minutes of a processor).
# Where calls lead back to one another through hundreds of files, the same ones are asked again from each.
LIMIT = 20_000_000


class TooMuch(Exception):
    """The analysis of a program asked more questions than it may."""


class Questions:
    """The open questions, the outermost first, each with its depth (from 0)."""

    def __init__(self) -> None:
        self._asked = 0
        self._open: dict[object, int] = {}
        self._low = _NONE  # the outermost question on which what is being found rests
        self._lacking: dict[object, tuple[Any, int]] = {}  # answers, and the depth of what they rest on
        self._order: list[object] = []  # of ``_lacking``, as they came
        self._hit: set[int] = set()  # the depths of open questions that were asked again

    def __bool__(self) -> bool:
        """Whether any is open."""
        return bool(self._open)

    def is_open(self, key: object) -> bool:
        """Whether a question is open; what is being found then rests on it."""
        depth = self._open.get(key)
        if depth is None:
            return False
        self._hit.add(depth)
        self._low = min(self._low, depth)
        return True

    def rest_on_all(self) -> None:
        """What is being found holds only until no question is open."""
        if self._open:
            self._hit.add(0)
            self._low = 0

    def forget(self) -> None:
        """Forget what lacks something, where no question is open (one may have ended by an error)."""
        self._lacking.clear()
        self._order.clear()
        self._low = _NONE

    def lacking(self, key: object) -> tuple[Any] | None:
        """The answer to a question that was found within one that is still open."""
        found = self._lacking.get(key)
        if found is None:
            return None
        self._low = min(self._low, found[1])
        return (found[0],)

    def begin(self, key: object = None) -> tuple[int, int, int]:
        """Begin a question; with a key it is open until ``end``. Gives what ``end`` and ``settle`` need.

        Raises ``TooMuch`` beyond ``LIMIT``.
        """
        self._asked += 1
        if self._asked > LIMIT:
            raise TooMuch
        state = len(self._open), self._low, len(self._order)
        self._low = _NONE
        if key is not None:
            self._open[key] = state[0]
        return state

    def end(self, key: object) -> None:
        """A question is no longer open."""
        del self._open[key]

    def settle(self, key: object, answer: object, state: tuple[int, int, int]) -> bool:
        """Take an answer; ``True`` where it rests on no open question, so that it may be kept for good."""
        depth, outer, mark = state
        final = self._low >= depth
        if final:
            self._drop(mark)
        else:
            self._move(depth, mark, self._low)
            self._lacking[key] = answer, self._low
            self._order.append(key)
        self._hit.discard(depth)
        self._low = outer if final else min(outer, self._low)
        return final

    def confirmed(self, kind: object, state: tuple[int, int, int]) -> dict[object, Any]:
        """The answers that rest on a question alone which ends with the very answer that they took for it.

        Only those found before one of another kind, of which it is not known what else it rests on.
        """
        depth, _, mark = state
        if self._low < depth:
            return {}
        own = takewhile(lambda key: isinstance(key, tuple) and key[0] == kind, self._order[mark:])
        return {key: self._lacking[key][0] for key in own if key in self._lacking}

    def leave(self, key: object, state: tuple[int, int, int]) -> None:
        """End a question that has no answer to keep: what rests on it now rests on the one around it."""
        depth, outer, mark = state
        self._open.pop(key, None)
        if depth == 0:
            self._drop(mark)
        else:
            self._move(depth, mark, depth - 1)
        self._hit.discard(depth)
        self._low = min(outer, self._low if self._low < depth else outer)

    def _drop(self, mark: int) -> None:
        for key in self._order[mark:]:
            self._lacking.pop(key, None)
        del self._order[mark:]

    def _move(self, depth: int, mark: int, low: int) -> None:
        """What rests on a question that ends rests on what this one rests on."""
        if depth in self._hit:
            for key in self._order[mark:]:
                found = self._lacking.get(key)
                if found is not None and found[1] >= depth:
                    self._lacking[key] = found[0], low
