"""Hooking into functions and methods of other packages, for the rest of the process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def after(owner: Any, name: str, hook: Callable[[Any, Any, Any], None]) -> None:
    """Call ``hook(self, result, args)`` whenever the method has returned."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        hook(self, result, args or tuple(kwargs.values()))
        return result

    setattr(owner, name, hooked)


def before(owners: list[Any], name: str, hook: Callable[[], None]) -> None:
    """Call ``hook()`` before each call of the function that these modules have under ``name``."""
    original = getattr(owners[0], name, None)
    if original is None:
        return

    @functools.wraps(original)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        hook()
        return original(*args, **kwargs)

    for owner in owners:
        setattr(owner, name, hooked)
