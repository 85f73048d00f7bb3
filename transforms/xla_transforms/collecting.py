"""When Python looks for garbage: trees hold one another, so that nothing else frees them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 500_000  # objects that hold others: some 100 MB of trees and analysis


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
