"""When Python looks for garbage: trees hold one another, so that nothing else frees them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 500_000  # objects that hold others: some 100 MB of trees and analysis
_SOME = 100_000


@contextmanager
def no_collections() -> Iterator[None]:
    """Trees and analysis live until a program is done: looking for garbage among them takes a tenth of it."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def collect_if_many() -> None:
    """Free what earlier programs left, where that is much: a look at little costs as much as it gives."""
    if gc.get_count()[0] > _MANY:
        gc.collect()


def collect_lately_made() -> None:
    """Free what was made since the last look and is held by nothing: black leaves the trees of each file.

    What a look finds in use is soon not looked at again, so that looks cost as much as a program makes.
    """
    if gc.get_count()[0] > _SOME:
        gc.collect(1)
