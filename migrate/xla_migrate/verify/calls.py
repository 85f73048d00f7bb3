"""Notes the cross-replica calls of a script, under the names and at the lines that it uses itself."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xla_migrate.verify.reads import where
from xla_migrate.verify.trace import Collective

OUTSIDE = "outside the script"


class Calls:
    """The calls so far. ``steps`` gives the number of optimizer steps at this moment, ``barriers`` that of
    the barriers, each of which executes what is pending.

    A call that is made within another one (``xm.all_reduce`` by ``xm.optimizer_step``) is part of it.
    """

    def __init__(self, root: Path, steps: Callable[[], int]) -> None:
        self.root, self.steps = root, steps
        self.made: list[Collective] = []
        self.barriers: Callable[[], int] = lambda: 0
        self._carried_at = -1  # how many barriers there had been
        self._now = threading.local()

    @contextmanager
    def named(self, name: str, elements: int = 0) -> Iterator[str]:
        """Whatever happens inside is one call ``name``; gives what it is called in a sentence."""
        inside = getattr(self._now, "text", None)
        if inside is not None:
            yield inside
            return
        place, before = where(self.root).replace(OUTSIDE, ""), self.steps()
        pending = self._carried_at == self.barriers()
        self._now.text = f"calls {name} at {place}" if place else f"calls {name}"
        self._now.elements = elements
        try:
            yield self._now.text
        finally:
            self._now.text = None
            self.made.append(Collective(name.partition("(")[0], self._now.elements, place, before, pending))

    def carry(self, elements: int) -> None:
        """So many elements were passed to other replicas by the call that is being made."""
        if getattr(self._now, "text", None) is not None:
            self._now.elements += elements
            self._carried_at = self.barriers()

    def watch(
        self, owners: list[Any], name: str, title: str, describe: Callable[..., str] = lambda *a, **k: ""
    ) -> None:
        """Note each call of the function that these modules have under ``name``."""
        original = getattr(owners[0], name, None)
        if original is None:
            return

        @functools.wraps(original)
        def noted(*args: Any, **kwargs: Any) -> Any:
            with self.named(title + describe(*args, **kwargs)):
                return original(*args, **kwargs)

        for owner in owners:
            setattr(owner, name, noted)
